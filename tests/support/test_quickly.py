"""The default run has each value of each axis, and each combination has its turn."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.quickly import leave_to_other_turns, one_of


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


def test_no_turn_is_without_a_row() -> None:
    shown = [quick(one_of(9, "ab", "cd", turn=turn)) for turn in range(4)]
    assert shown == [[("a", "c")], [("a", "d"), ("b", "c")], [("b", "d")], [("a", "c")]]


class Row:
    """What is asked of a test."""

    def __init__(self, name: str, turns: int | None) -> None:
        self.nodeid = name
        self._marks = {"turns": pytest.mark.turns(turns).mark} if turns else {}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self._marks.get(name)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self._marks[mark.name] = mark.mark


def shown_of(names: dict[str, int | None], turn: int) -> list[str]:
    rows: list[Any] = [Row(name, turns) for name, turns in names.items()]
    leave_to_other_turns(rows, turn)
    return [row.nodeid for row in rows if row.get_closest_marker("other_turn") is None]


def test_each_row_of_a_function_has_one_of_its_turns_and_no_turn_more_than_one_row_more_than_another() -> None:
    names = {**{f"a.py::test_a[{number}-{axis}]": 3 for number in range(5) for axis in "xy"}, "a.py::test_b": 4}
    turns = [shown_of(names, turn) for turn in range(12)]
    rows = [[name for name in shown if "test_a" in name] for shown in turns[:3]]
    assert sorted(name for shown in rows for name in shown) == sorted(name for name in names if "test_a" in name)
    assert sorted(map(len, rows)) == [3, 3, 4]
    assert [len([name for name in shown if name == "a.py::test_b"]) for shown in turns].count(1) == 3
    assert turns[0] == shown_of(names, 12)


def test_what_has_no_turns_is_in_each() -> None:
    assert [shown_of({"a.py::test_a": None}, turn) for turn in range(3)] == [["a.py::test_a"]] * 3


def test_rows_of_one_of_have_no_other_turns() -> None:
    row: Any = Row("a.py::test_a[0]", 3)
    row.add_marker(pytest.mark.other_turn)
    with pytest.raises(AssertionError, match=r"a\.py::test_a\[0\] is of one_of"):
        leave_to_other_turns([row], 0)
