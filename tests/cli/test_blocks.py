"""Blocks of results for people: their heights, notes, and the rows that a screen has room for."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest

from rmqctl import blocks, tables
from rmqctl.blocks import Block, Look
from rmqctl.result import Result, Table


def block(rows: int, title: str = "", *, headers: bool = True, **fields: Any) -> Block:
    """A table of one column, a line a row."""
    cells = [[str(number)] for number in range(rows)]
    return Block(["n"] if headers else [], cells, [False], title or "rows", title, **fields)


@pytest.mark.parametrize(
    ("fields", "width", "notes"),
    [
        ({}, 80, []),
        ({"more": 1}, 80, ["and 1 more (--wide)"]),
        ({"more": 1200, "left_out": ["facts: 3", "x: 1"]}, 80, ["and 1,200 more; facts: 3; x: 1 (--wide)"]),
        ({"more": 2, "title": "t"}, 80, []),
        ({"more": 2, "title": "t", "left_out": ["x: 1"]}, 80, ["x: 1 (--wide)"]),
        ({"date": "2026-01-02"}, 80, ["times are of 2026-01-02"]),
        ({"dropped": ["a", "b"]}, 80, ["not shown: a, b (--wide)"]),
        ({"dropped": ["aaaa", "bbbb"]}, 16, ["not shown: aaaa,", "bbbb (--wide)"]),
        ({"dropped": ["aaaa", "bbbb"]}, None, ["not shown: aaaa, bbbb (--wide)"]),
        ({"more": 3, "date": "d", "dropped": ["a"]}, 80,
         ["and 3 more (--wide)", "times are of d", "not shown: a (--wide)"]),
    ],
)  # fmt: skip
def test_a_block_notes_what_it_leaves_out(fields: dict[str, Any], width: int | None, notes: list[str]) -> None:
    assert block(1, **fields).notes(width) == notes


@pytest.mark.parametrize(
    ("shown", "height"),
    [
        (block(0), 2),
        (block(0, more=1), 0),
        (block(1, headers=False), 2),
        (block(1), 4),
        (block(3), 6),
        (block(3, "t"), 7),
        (block(3, more=1), 7),
        (block(3, "t", more=1), 7),
        (Block(["a\nb"], [["1\n2\n3"], ["4"]], [False]), 8),
    ],
)
def test_a_block_has_the_lines_of_its_cells_headings_and_notes(shown: Block, height: int) -> None:
    assert shown.height(80) == height


@pytest.mark.parametrize(("more", "heading"), [(0, "t"), (1, "t, 3 of 4 (--wide)"), (9_997, "t, 3 of 10,000 (--wide)")])
def test_a_heading_counts_the_rows_that_are_left_out(more: int, heading: str) -> None:
    assert block(3, "t", more=more).heading() == heading


def test_columns_of_losses_are_left_out_where_there_are_none() -> None:
    names = ["topic", "lost_count", "gap_bytes", "wrong_count", "count"]
    shown = Block(names, [["T", "0", "0 B", "0", "0"], ["U", "-", "0 B", "3", "0"]], [False, True, True, True, True])
    blocks._drop_zeros(shown)
    assert (shown.headers, shown.rows) == (["topic", "wrong_count", "count"], [["T", "0", "0"], ["U", "3", "0"]])
    assert shown.numeric == [False, True, True]


@pytest.mark.parametrize(
    ("rows", "date", "shown"),
    [
        (["2026-01-02T03:04:05.678Z", "-"], "2026-01-02", ["03:04:05.678Z", "-"]),
        (["2026-01-02T03:04:05.678Z", "2026-01-02T00:00:00.000Z"], "2026-01-02", ["03:04:05.678Z", "00:00:00.000Z"]),
        (["2026-01-02T03:04:05.678Z", "2026-01-03T03:04:05.678Z"], "", None),
        (["-", "7"], "", None),
    ],
)
def test_a_date_that_all_times_share_is_said_once(rows: list[str], date: str, shown: list[str] | None) -> None:
    times = Block(["t"], [[one] for one in rows], [False])
    blocks._share_date(times)
    assert (times.date, [row[0] for row in times.rows]) == (date, shown or rows)


def test_names_of_facts_stay_whole_and_their_values_are_folded() -> None:
    facts = Block([], [["a/name of some words", "b/value of some words"]], [False, False])
    blocks._fit(facts, 32, 2)
    assert [row[0] for row in facts.rows] == ["a/name of some words"]
    assert facts.rows[0][1].replace("\n", " ") != facts.rows[0][1]


def test_a_terminal_is_told_of_a_table_without_rows() -> None:
    stream = StringIO()
    tables.render_rich(Result("x", {}, [Table("bad_places", [])]), stream, Look(80))
    assert stream.getvalue() == "no bad places\n"


@pytest.mark.parametrize(("height", "notes", "room"), [(None, 0, None), (24, 0, 22), (24, 3, 19)])
def test_a_result_has_the_screen_without_notes_and_prompt(height: int | None, notes: int, room: int | None) -> None:
    assert Look(80, height=height, note_lines=lambda: notes).room() == room


@pytest.mark.parametrize(("rows", "left", "more"), [(-1, 5, 0), (0, 5, 0), (1, 4, 1), (5, 0, 5)])
def test_the_last_rows_are_left_out(rows: int, left: int, more: int) -> None:
    shown = block(5)
    blocks._shorten(shown, rows)
    assert ([row[0] for row in shown.rows], shown.more) == ([str(number) for number in range(left)], more)


def facts_block(count: int) -> Block:
    return Block([], [[f"f{number}", "x"] for number in range(count)], [False, False])


# Rows of the tables `actions`, `lost` and `extra`, facts, and the lines of the screen. Each table has 4 lines besides
# its rows: a blank one, its heading, the names of its columns, and a rule.
@pytest.mark.parametrize(
    ("rows", "facts", "room", "shown", "left_out"),
    [
        ((5, 4, 4), 2, 28, [5, 4, 4, 2], []),
        ((5, 4, 4), 2, 27, [4, 4, 4, 2], []),
        ((5, 4, 4), 2, 23, [3, 2, 3, 2], []),
        ((5, 4, 4), 2, 22, [3, 2, 2, 2], []),
        ((5, 4, 4), 2, 21, [5, 4, 0, 2], ["extra: 4"]),
        ((5, 4, 4), 2, 20, [5, 3, 0, 2], ["extra: 4"]),
        ((5, 4, 4), 2, 15, [2, 1, 0, 2], ["extra: 4"]),
        ((5, 4, 4), 2, 14, [1, 1, 0, 2], ["extra: 4"]),
        ((5, 4, 4), 2, 3, [1, 1, 0, 2], ["extra: 4"]),
    ],
)
def test_a_screen_shows_the_first_rows_of_each_table_as_far_as_it_has_room(
    rows: tuple[int, int, int], facts: int, room: int, shown: list[int], left_out: list[str]
) -> None:
    titles = ("actions", "lost", "extra")
    found = [block(count, title) for count, title in zip(rows, titles, strict=True)]
    below = [facts_block(facts)]
    blocks._fit_screen(found, below, room, 80)
    assert [len(one.rows) for one in (*found, *below)] == shown
    assert [one.more for one in found] == [count - left for count, left in zip(rows, shown, strict=False)]
    assert below[0].left_out == left_out


@pytest.mark.parametrize(("room", "shown", "told"), [(14, [3, 2], ["facts: 5"]), (13, [3, 0], ["facts: 5"])])
def test_a_single_fact_is_left_out_before_a_table(room: int, shown: list[int], told: list[str]) -> None:
    found, below = [block(3, "actions"), block(2, "extra")], [Block([], [["f", "x"]], [False, False], more=4)]
    blocks._fit_screen(found, below, room, 80)
    assert ([len(one.rows) for one in found], below, found[1].left_out) == (shown, [], told)


@pytest.mark.parametrize(
    ("is_plan", "width", "main", "names"),
    [
        (False, None, (), ["a", "lost_count", "b"]),
        (True, None, (), ["a", "b"]),
        (False, 80, (), ["a", "b"]),
        (False, 80, ("b",), ["b"]),
        (False, None, ("b",), ["a", "lost_count", "b"]),
        (False, 80, ("c",), []),
    ],
)
def test_a_terminal_shows_the_main_facts_and_no_losses_of_0(
    is_plan: bool, width: int | None, main: tuple[str, ...], names: list[str]
) -> None:
    facts = {"a": 1, "none": None, "lost_count": 0, "b": 0}
    found = blocks._facts_block(Result("x", facts, is_plan=is_plan), Look(width), main)
    assert [[row[0] for row in one.rows] for one in found] == ([names] if names else [])
    assert [one.more for one in found] == ([(2 if width or is_plan else 3) - len(names)] if names else [])


def test_details_are_left_out_of_a_terminal_and_losses_of_a_plan_come_first() -> None:
    lists = [Table("actions", [{"n": 1}]), Table("lost", [{"n": 2}]), Table("all", [{"n": 3}], is_detail=True)]
    shown = blocks.fitted_blocks(Result("x", {"a": 1}, lists, is_plan=True), Look(80))
    assert [one.title for one in shown] == ["lost", "actions", ""]
    assert [one.dropped for one in shown] == [[], ["all"], []]
    shown = blocks.fitted_blocks(Result("x", {"a": 1}, lists), Look(None))
    assert [one.title for one in shown] == ["", "lost", "actions", "all"]
