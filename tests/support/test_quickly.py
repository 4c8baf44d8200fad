"""The default run has each value of each axis, and each combination has its turn."""

from __future__ import annotations

from typing import Any

from tests.support.quickly import one_of


def quick(parameters: list[Any]) -> list[tuple[Any, ...]]:
    assert {mark.name for one in parameters for mark in one.marks} == {"other_turn"}
    return [one.values for one in parameters if not one.marks]


def test_each_value_of_each_axis_is_quick_once() -> None:
    both = one_of(2, "abcde", [1, 2], turn=0)
    assert quick(both) == [("a", 1), ("b", 2), ("c", 1), ("d", 2), ("e", 1)]
    assert [one.values for one in both] == [(letter, number) for letter in "abcde" for number in (1, 2)]


def test_of_one_axis_one_of_every_few_is_quick_and_each_has_its_turn() -> None:
    shown = [[value for (value,) in quick(one_of(3, range(7), turn=turn))] for turn in range(4)]
    assert shown == [[0, 3, 6], [1, 4], [2, 5], [0, 3, 6]]
