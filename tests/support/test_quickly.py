"""The default run has each value of each axis, and each combination has its turn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.quickly import LONG, is_drawn, leave_to_other_turns, one_of

CHECKOUT = Path(__file__).resolve().parents[2]


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


def shown_of(names: dict[str, int | None], turn: int, *long: str) -> list[str]:
    rows: list[Any] = [Row(name, turns) for name, turns in names.items()]
    leave_to_other_turns(rows, turn, long)
    left_out = ("other_turn", "long")
    return [row.nodeid for row in rows if not any(map(row.get_closest_marker, left_out))]


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


@pytest.mark.parametrize("turns", [None, 2, 3, 4, 7])
def test_each_row_of_a_long_function_is_in_one_of_seven_of_its_turns(turns: int | None) -> None:
    names = {f"a.py::test_a[{number}]": turns for number in range(9)}
    shown = [shown_of(names, turn, "a.py::test_a") for turn in range(84)]
    assert {name: sum(name in one for one in shown) for name in names} == dict.fromkeys(
        names, {None: 12, 2: 6, 3: 4, 4: 3, 7: 12}[turns]
    )


def test_rows_of_one_of_have_no_other_turns() -> None:
    row: Any = Row("a.py::test_a[0]", 3)
    row.add_marker(pytest.mark.other_turn)
    with pytest.raises(AssertionError, match=r"a\.py::test_a is of one_of"):
        leave_to_other_turns([row], 0)


def test_a_long_row_of_one_of_is_in_each_turn_of_its_own() -> None:
    rows: list[Any] = [Row(f"a.py::test_a[{number}]", None) for number in range(6)]
    rows[0].add_marker(pytest.mark.other_turn)
    leave_to_other_turns(rows, 0, ["a.py::test_a"])
    assert not any(row.get_closest_marker("long") for row in rows)


def test_every_test_is_drawn_in_a_third_of_the_turns_or_so() -> None:
    drawn = [[name for name in "abcdefgh" if is_drawn(name, 3, turn)] for turn in range(300)]
    counts = {name: sum(name in one for one in drawn) for name in "abcdefgh"}
    assert {name: 80 <= count <= 120 for name, count in counts.items()} == dict.fromkeys("abcdefgh", True)


def test_the_long_functions_exist() -> None:
    words = {
        path: re.findall(r"\w+", (CHECKOUT / path).read_text(encoding="utf-8"))
        for path in {one.split("::")[0] for one in LONG}
    }
    assert [one for one in LONG if one.split("::")[1] not in words[one.split("::")[0]]] == []
