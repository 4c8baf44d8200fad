"""The default run has each value of each axis, the slow one all the rest."""

from __future__ import annotations

from typing import Any

from tests.support.quickly import one_of


def quick(parameters: list[Any]) -> list[tuple[Any, ...]]:
    assert {mark.name for one in parameters for mark in one.marks} == {"slow"}
    return [one.values for one in parameters if not one.marks]


def test_each_value_of_each_axis_is_quick_once() -> None:
    both = one_of(2, "abcde", [1, 2])
    assert quick(both) == [("a", 1), ("b", 2), ("c", 1), ("d", 2), ("e", 1)]
    assert [one.values for one in both] == [(letter, number) for letter in "abcde" for number in (1, 2)]


def test_of_one_axis_the_first_of_every_few_is_quick() -> None:
    assert quick(one_of(3, range(7))) == [(0,), (3,), (6,)]
    assert [one.values for one in one_of(3, range(7))] == [(number,) for number in range(7)]
