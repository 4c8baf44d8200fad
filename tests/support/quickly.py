"""Thin parameters for the default run; the others are marked slow, and `.ci/run` takes them in turns."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def one_of(step: int, *axes: Iterable[Any]) -> list[Any]:
    """Return every combination; those whose positions add up to a multiple of `step` are quick.

    So with an axis of `step` values or more, each value of the other axes is quick at least once.
    For values that are a product themselves, take a step that divides none of its lengths.
    """
    return [
        pytest.param(*(value for _, value in one), marks=pytest.mark.slow if sum(n for n, _ in one) % step else ())
        for one in product(*(enumerate(axis) for axis in axes))
    ]
