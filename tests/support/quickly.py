"""Thin parameters for the default run, which shows a share of them; `.ci/run` shows another share with each commit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest

TURN = int(os.environ.get("RMQCTL_TESTS_TURN", "0"))
"""Number of the share that is shown; .ci/run sets the count of commits."""
LEFT_OUT = ("slow", "other_turn")
"""The marks of tests that are not in the default run."""


def one_of(step: int, *axes: Iterable[Any], turn: int = TURN) -> list[Any]:
    """Return every combination; those whose positions add up to `turn`, modulo `step`, are in the default run.

    So each is in one of `step` turns, and with an axis of `step` values or more each value of the other axes is in
    every turn. For values that are a product themselves, take a step that divides none of its lengths.
    """
    return [
        pytest.param(*(value for _, value in one), marks=marks_of(sum(number for number, _ in one) - turn, step))
        for one in product(*(enumerate(axis) for axis in axes))
    ]


def marks_of(number: int, step: int) -> Sequence[pytest.MarkDecorator]:
    """Return the mark of what the default run leaves to another turn; none for one number in `step`."""
    return [pytest.mark.other_turn] if number % step else []


def chosen_marks(given: str) -> str:
    """Return the mark expression for a run of all tests: as given where that is about what is left out by default."""
    if any(mark in given for mark in LEFT_OUT):
        return given
    return " and ".join([*([f"({given})"] if given else []), *(f"not {mark}" for mark in LEFT_OUT)])
