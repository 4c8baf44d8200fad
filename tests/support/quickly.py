"""Parameters of which a few show the rule by default; the others are marked slow, for `.ci/run` to take in turns."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def diagonal(*axes: Iterable[Any]) -> list[Any]:
    """Return every combination; those of the diagonal, which have each value of each axis, are quick."""
    values = [list(axis) for axis in axes]
    longest = max(len(axis) for axis in values)
    quick = {tuple(axis[n % len(axis)] for axis in values) for n in range(longest)}
    return [_slow_unless(one in quick, *one) for one in product(*values)]


def every(step: int, values: Iterable[Any]) -> list[Any]:
    """Return all values; the first of every `step` is quick."""
    return [_slow_unless(number % step == 0, value) for number, value in enumerate(values)]


def _slow_unless(quick: bool, *values: Any) -> Any:
    return pytest.param(*values, marks=() if quick else pytest.mark.slow)
