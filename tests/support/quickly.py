"""Thin tables for the default run, which shows a share of their rows; `.ci/run` shows another with each commit."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

TURN = int(os.environ.get("RMQCTL_TESTS_TURN", "0"))
"""Number of the share that is shown; .ci/run sets the count of commits."""
LEFT_OUT = ("slow", "other_turn")
"""The marks of tests that a run by marks leaves out."""
LONG = frozenset(Path(__file__).with_name("long.txt").read_text(encoding="utf-8").split())
"""Functions that take most of a run's time together; `python -m tests.support.long RUN.xml` writes them."""
LONG_TURNS = 7
"""No divisor of the turns that functions have: a row of both is in some run then."""


def one_of(step: int, *axes: Iterable[Any], turn: int = TURN) -> list[Any]:
    """Return every combination; those whose positions add up to `turn`, modulo `step`, are in the default run.

    So each is in one of `step` turns, and with an axis of `step` values or more each value of the other axes is in
    every turn. For values that are a product themselves, take a step that divides none of its lengths. No turn is
    without a combination: there are as many as different sums, where those are fewer.
    """
    combinations = list(product(*(enumerate(axis) for axis in axes)))
    numbers = [sum(number for number, _ in one) for one in combinations]
    turns = min(step, max(numbers) + 1)
    return [
        pytest.param(*(value for _, value in one), marks=marks_of(number - turn, turns))
        for number, one in zip(numbers, combinations, strict=True)
    ]


def leave_to_other_turns(items: Iterable[pytest.Item], turn: int = TURN, long: Container[str] = LONG) -> None:
    """Mark the rows of functions with the mark `turns(N)` that are not of this turn: each row is in one of N turns.

    Rows are numbered in an order by chance, so that no value of one of several tables is left out of a turn for good,
    from a number by chance, so that functions of one row have different turns. By the same numbers the rows of a `long`
    function are marked long, as the default run shows one in LONG_TURNS; those of `one_of` have no two tables of turns.
    """
    functions = defaultdict(list)
    for item in items:
        functions[item.nodeid.split("[")[0]].append(item)
    for name, rows in functions.items():
        turns, has_turns = (
            rows[0].get_closest_marker("turns"),
            any(row.get_closest_marker("other_turn") for row in rows),
        )
        # Of two tables of turns some rows would never be in the same.
        assert turns is None or not has_turns, f"{name} is of one_of and has the mark turns"
        rows.sort(key=lambda row: crc32(row.nodeid.encode()))
        for number, row in enumerate(rows, start=crc32(name.encode())):
            if turns is not None and (number - turn) % turns.args[0]:
                row.add_marker(pytest.mark.other_turn)
            if name in long and not has_turns and (number - turn) % LONG_TURNS:
                row.add_marker(pytest.mark.long)


def marks_of(number: int, step: int) -> Sequence[pytest.MarkDecorator]:
    """Return the mark of what the default run leaves to another turn; none for one number in `step`."""
    return [pytest.mark.other_turn] if number % step else []


def is_drawn(nodeid: str, step: int, turn: int = TURN) -> bool:
    """Return whether a test is one of those that this turn draws, one in `step`."""
    return crc32(f"{turn} {nodeid}".encode()) % step == 0


def chosen_marks(given: str) -> str:
    """Return the mark expression for a run of all tests: as given where that is about what is left out by default."""
    left_out = (*LEFT_OUT, "long")
    if any(mark in given for mark in left_out):
        return given
    return " and ".join([*([f"({given})"] if given else []), *(f"not {mark}" for mark in left_out)])
