"""The renderer: one value, seven forms."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.blocks import Look
from rmqctl.layout import text_width
from rmqctl.messages import ROW_NAMES, ROW_NAMES_WITHOUT_BODY
from rmqctl.output import Format, render
from rmqctl.result import Result, Table
from rmqctl.show import TimeForm, words
from tests.cli.running import rmqctl
from tests.support.five_stores import five
from tests.support.golden import golden
from tests.support.stores import make_store

ROWS = [
    {"queue_offset": 9, "store_timestamp_ms": 1000, "tags": None, "keys": ["a", "b"], "body": "hello"},
    {"queue_offset": 10, "store_timestamp_ms": 0, "tags": "T|U", "keys": [], "body": "\x1b[31mred\nline"},
]


def shown(form: Format, result: Result | None = None, width: int | None = 80) -> str:
    stream = io.StringIO()
    result = result or Result("get", {"status": "FOUND", "next_offset": 11}, [Table("messages", ROWS)])
    render(result, form, stream, Look(width))
    return stream.getvalue()


def test_json_is_one_document_with_its_schema() -> None:
    document = json.loads(shown(Format.JSON))
    assert document == {"schema": "rmqctl.get/1", "status": "FOUND", "next_offset": 11, "messages": ROWS}


def test_json_of_rows_that_come_late_is_the_same_document() -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield from ROWS

    result = Result("get", lambda: {"status": "FOUND", "next_offset": 11}, [Table("messages", rows())])
    assert json.loads(shown(Format.JSON, result)) == json.loads(shown(Format.JSON))


def test_an_empty_table_is_an_empty_list() -> None:
    assert json.loads(shown(Format.JSON, Result("get", {}, [Table("messages", [])])))["messages"] == []


def test_a_command_of_two_words_has_one_schema_name() -> None:
    assert Result("checkpoint show").schema == "rmqctl.checkpoint-show/1"


def test_json_lines_hold_a_row_each() -> None:
    assert [json.loads(line) for line in shown(Format.JSONL).splitlines()] == ROWS


def test_csv_has_a_heading_and_lists_as_json() -> None:
    rows = list(csv.DictReader(io.StringIO(shown(Format.CSV), newline="")))
    assert [row["queue_offset"] for row in rows] == ["9", "10"]
    assert rows[0]["keys"] == '["a", "b"]'
    assert rows[1]["body"] == r"\x1b[31mred" + "\nline"


def test_a_result_without_tables_is_one_row_of_its_facts() -> None:
    result = Result("undo", {"change_id": "x", "file_count": 3})
    assert shown(Format.CSV, result) == "change_id,file_count\r\nx,3\r\n"
    assert json.loads(shown(Format.JSONL, result)) == {"change_id": "x", "file_count": 3}


def test_a_summary_is_one_row_of_everything() -> None:
    result = Result("info", {"log_end": 5}, [Table("problems", []), Table("messages", iter(ROWS))], is_summary=True)
    assert json.loads(shown(Format.JSONL, result)) == {"log_end": 5, "problems": [], "messages": ROWS}
    result = Result("info", {"log_end": 5}, [Table("problems", [])], is_summary=True)
    assert shown(Format.CSV, result) == "log_end,problems\r\n5,[]\r\n"


@pytest.mark.parametrize("form", [Format.TABLE, Format.PLAIN, Format.MARKDOWN])
def test_people_see_times_as_dates_and_no_control_characters(form: Format) -> None:
    text = shown(form, width=None)
    assert "1970-01-01T00:00:01.000Z" in text
    assert "\x1b" not in text
    assert "\\x1b[31mred\\nline" in text


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_colours_are_in_a_pipe_only_where_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    store = make_store(tmp_path / "store", 1)
    for options in ((), ("--color", "never"), ("--color", "always", "--no-color")):
        assert "\x1b[" not in rmqctl(*options, "get", "T", store=store, variables={}).out
    for options in (("--color", "always"), ("--color", "always", "--format", "table")):
        out = rmqctl(*options, "get", "T", store=store, variables={"NO_COLOR": "1"}).out
        assert "\x1b[32mFOUND\x1b[0m" in out
    assert "\x1b[" not in rmqctl("get", "T", store=store, variables={"TERM": "dumb"}, terminal=True).out


def test_markdown_escapes_what_would_end_a_cell() -> None:
    assert "T\\|U" in shown(Format.MARKDOWN)


@pytest.mark.parametrize("width", [20, 40, 80])
def test_numbers_are_never_cut_short_however_narrow_the_terminal(width: int) -> None:
    number = (1 << 63) - 1
    row = {"log_offset": number, "body": "x" * 300}
    assert str(number) in shown(Format.TABLE, Result("get", {}, [Table("messages", [row])]), max(width, 20))


@pytest.mark.parametrize(
    ("width", "length", "cell"),
    [
        (500, 200, "x" * 200),
        (500, 201, "x" * 199 + "…"),
        (None, 201, "x" * 201),
        (None, 4096, "x" * 4096),
        (None, 4097, "x" * 4095 + "…"),
    ],
)
@pytest.mark.parametrize(
    "value", [str, lambda text: [text], lambda text: {text[:1]: text[2:]}], ids=["text", "list", "map"]
)
def test_a_pipe_has_cells_of_4096_letters_and_no_padding_at_their_lines_ends(
    width: int | None, length: int, cell: str, value: Callable[[str], object]
) -> None:
    result = Result("get", {"fact": value("x" * length)}, [Table("rows", [{"k": value("x" * length)}, {"k": "y"}])])
    shown = io.StringIO()
    render(result, Format.PLAIN, shown, Look(width))
    fact, _, heading, rule, *rows = shown.getvalue().splitlines()
    spaced = cell if value("") != {"": ""} else f"x {cell[2:]}"
    assert (fact, heading, len(rule), rows) == (f"fact  {spaced}", "k", len(cell), [spaced, "y"])


def test_a_table_fits_eighty_columns() -> None:
    rows = [
        {
            "log_offset": 1 << 40,
            "file": "consumequeue/some-topic/0/00000000000000000000",
            "reason": "word " * 30,
        }
    ]
    text = shown(Format.TABLE, Result("recover", {}, [Table("actions", rows)]))
    assert max(map(len, text.splitlines())) <= 80


def test_an_empty_list_says_so() -> None:
    assert "no messages" in shown(Format.PLAIN, Result("get", {}, [Table("messages", [])]))


def test_bytes_have_a_unit_for_people_and_none_for_programs() -> None:
    result = Result("quarantine purge", {"freed_bytes": 3 << 30})
    assert "3.0 GiB" in shown(Format.PLAIN, result)
    assert json.loads(shown(Format.JSON, result))["freed_bytes"] == 3 << 30


def test_numbers_beside_a_long_text_in_one_column_leave_the_names_whole() -> None:
    values: list[Any] = [1 << 30, "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"]
    rows = [{"name": "mappedFileSizeCommitLog", "value": value, "effect": "a word " * 8} for value in values]
    lines = shown(Format.PLAIN, Result("config settings", {}, [Table("settings", rows)])).split("\n")
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("mappedFileSizeCommitLog  ") for line in lines) == 2
    assert any("1073741824" in line for line in lines)


def test_several_tables_have_titles() -> None:
    text = shown(Format.PLAIN, Result("recover", {}, [Table("actions", ROWS), Table("lost", ROWS)]))
    assert "actions:" in text
    assert "lost:" in text


def test_on_a_narrow_terminal_no_segment_name_and_no_moment_is_torn() -> None:
    segment = "/data/rocketmq/store/commitlog/00000000001073741824"
    row = {"file": segment, "share_percent": 12.5, "first_ms": 1, "last_ms": 2}
    out = shown(Format.TABLE, Result("usage", {}, [Table("usage", [row])]))
    lines = [line.split() for line in out.splitlines()]
    assert any("00000000001073741824" in words for words in lines)
    assert any([word.startswith("00:00:00.00") for word in words].count(True) == 2 for words in lines)
    assert "times are of 1970-01-01" in out
    assert "12.50 %" in out


@pytest.mark.parametrize(
    ("moments", "cells", "note"),
    [
        ((1, 86_399_999), ["00:00:00.001Z", "23:59:59.999Z"], "times are of 1970-01-01\n"),
        ((1, 86_400_000), ["1970-01-01T00:00:00.001Z", "1970-01-02T00:00:00.000Z"], ""),
    ],
)
def test_times_lose_the_date_that_all_rows_share(moments: tuple[int, int], cells: list[str], note: str) -> None:
    result = Result("get", {}, [Table("messages", [{"first_ms": moments[0], "last_ms": moments[1]}])])
    lines = shown(Format.PLAIN, result).splitlines(keepends=True)
    assert (lines[2].split(), "".join(lines[3:])) == (cells, note)
    assert "T00:00:00.001Z" in shown(Format.PLAIN, result, None)


def test_the_least_wanted_columns_go_first_and_ids_are_whole() -> None:
    uniq_key = "7F0000010012345600000000ABCD0000"
    row = {"topic": "Orders", "body": "x" * 40, "tags": "y" * 20, "uniq_key": uniq_key, "queue_offset": 1 << 60}
    text = shown(Format.PLAIN, Result("get", {}, [Table("messages", [row])]), 64)
    assert uniq_key in text
    assert "not shown: body, tags (--wide)" in text


@pytest.mark.parametrize(("rows", "shown_rows"), [(18, 18), (19, 17), (1000, 17)])
def test_a_plan_fits_the_screen(rows: int, shown_rows: int) -> None:
    result = Result("rebuild", {"lost_messages": 0}, [Table("actions", [{"n": n} for n in range(rows)])], is_plan=True)
    more = [f"and {rows - shown_rows:,} more (--wide)"] if rows > shown_rows else []
    expected = ["so", "", " n", "--", *(f"{n:2}" for n in range(shown_rows)), *more]
    lines = [line.rstrip() for line in drawn(result, Look(80, height=24)).splitlines()]
    assert (lines, len(lines) <= 22) == (expected, True)
    assert len(drawn(result, Look(80)).splitlines()) == rows + 4


def test_a_heading_is_folded_for_the_rows_on_the_screen_not_for_those_left_out() -> None:
    names = ["short"] * 20 + ["a" * 40]
    rows = [{"topic": name, "message_count": 1, "size_bytes": 2, "intact_count": 3} for name in names]
    lines = drawn(Result("recover", {}, [Table("lost", rows)], is_plan=True), Look(80, height=22)).splitlines()
    assert lines[2].split() == ["topic", "message_count", "size_bytes", "intact_count"]
    assert "message_count" not in drawn(Result("recover", {}, [Table("lost", rows)], is_plan=True), Look(70, height=40))


def test_a_plan_on_a_small_screen_names_the_tables_that_it_leaves_out() -> None:
    rows = [{"n": n} for n in range(9)]
    result = Result("recover", {"log_end": 5, "compat": "4.9"}, [Table("actions", rows), Table("lost", rows)])
    result = dataclasses.replace(result, is_plan=True)
    text = drawn(result, Look(80, height=17))
    assert text.splitlines() == [
        "so", "",
        "lost, 3 of 9 (--wide):", "n", "-", "0", "1", "2", "",
        "actions, 2 of 9 (--wide):", "n", "-", "0", "1",
        "facts: 2 (--wide)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("height", "lines", "counts"),
    [
        (10, 15, [1, 1, 0]),
        (17, 15, [1, 1, 0]),
        (18, 16, [1, 2, 0]),
        (19, 17, [1, 3, 0]),
        (20, 18, [2, 3, 0]),
        (21, 19, [2, 4, 0]),
        (23, 21, [3, 5, 0]),
        (24, 22, [4, 5, 0]),
        (25, 23, [5, 5, 0]),
        (26, 24, [2, 3, 2]),
        (27, 25, [2, 3, 3]),
        (28, 26, [3, 3, 3]),
        (29, 27, [3, 3, 4]),
        (31, 29, [4, 4, 4]),
        (33, 31, [5, 5, 4]),
        (34, 32, [6, 5, 4]),
        (99, 32, [6, 5, 4]),
    ],
)
def test_a_screen_has_as_many_rows_of_each_table_as_fit_and_counts_the_others(
    height: int, lines: int, counts: list[int]
) -> None:
    rows: list[list[dict[str, Any]]] = [
        [{"n": number, "reason": "two\nlines" if number == 1 else "one"} for number in range(6)],
        [{"m": number} for number in range(100, 105)],
        [{"k": number} for number in range(200, 204)],
    ]
    names = ("actions", "lost", "gone")
    tables = [Table(name, table) for name, table in zip(names, rows, strict=True)]
    facts: dict[str, Any] = {"log_end": 5, "compat": "4.9", "freed_bytes": 3, "lost_bytes": 0}
    shown_lines = drawn(Result("recover", facts, tables, is_plan=True), Look(80, height=height)).splitlines()
    found = [
        sum(re.match(rf"{first}( |$)", line) is not None for line in shown_lines) for first in ("\\d", "1..", "2..")
    ]
    # People see first what is lost.
    more = [
        f"{names[at]}, {counts[at]} of {len(rows[at])} (--wide):" for at in (1, 0, 2) if 0 < counts[at] < len(rows[at])
    ]
    if counts != [6, 5, 4]:
        more.append("and 1 more (--wide)" if counts[2] else "and 1 more; gone: 4 (--wide)")
    assert (len(shown_lines), found) == (lines, counts)
    assert [line for line in shown_lines if "(--wide)" in line] == more


def test_a_terminal_leaves_out_columns_that_count_no_loss() -> None:
    rows = [{"topic": "a", "lost_count": 0, "lost_bytes": 0, "damaged_count": damaged} for damaged in (0, 1)]
    result = Result("recover", {}, [Table("queues", rows)])
    assert drawn(result, Look(80)).splitlines()[2].split() == ["topic", "damaged_count"]
    assert drawn(result, Look(None)).splitlines()[2].split() == ["topic", "lost_count", "lost_bytes", "damaged_count"]


def drawn(result: Result, look: Look) -> str:
    stream = io.StringIO()
    render(dataclasses.replace(result, verdict="so"), Format.PLAIN, stream, look)
    return stream.getvalue()


def test_ids_and_dates_in_other_text_are_whole_and_a_body_has_three_lines() -> None:
    uniq_key = "7F0000010012345600000000ABCD0000"
    row = {"place": f"index entry 30 of {uniq_key}", "day": "2026-11-21", "body": "x " * 90}
    assert shown(Format.PLAIN, Result("find", {}, [Table("places", [row])]), 54).splitlines() == [
        "place                             day         body",
        "--------------------------------  ----------  -------",
        "index entry 30 of                 2026-11-21  x x x x",
        "7F0000010012345600000000ABCD0000              x x x x",
        "                                              …",
    ]


def test_the_tables_of_details_are_named_on_a_terminal_and_shown_elsewhere() -> None:
    result = Result("find", {}, [Table("hits", [{"a": 1}]), Table("searched", [{"b": 2}], is_detail=True)])
    assert shown(Format.PLAIN, result) == "a\n-\n1\nnot shown: searched (--wide)\n"
    assert shown(Format.PLAIN, result, None) == "hits:\na\n-\n1\n\nsearched:\nb\n-\n2\n"


WORDS = "four more words here"


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (26, [f"name  {WORDS}"]),
        (25, ["name  four more words", "      here"]),
        (1, ["name  four", "      more", "      words", "      here"]),
    ],
)
def test_a_fact_is_folded_two_columns_behind_its_name(width: int, lines: list[str]) -> None:
    assert shown(Format.PLAIN, Result("info", {"name": WORDS}), width).splitlines() == lines


class Noting(io.StringIO):
    """Notes what was written up to each flush."""

    def __init__(self) -> None:
        super().__init__()
        self.flushed: list[str] = []

    def flush(self) -> None:
        self.flushed.append(self.getvalue())


def test_each_line_of_json_is_flushed_before_the_next_row_is_read() -> None:
    stream, seen = Noting(), list[list[str]]()

    def rows() -> Iterator[dict[str, Any]]:
        for number in range(3):
            seen.append(list(stream.flushed))
            yield {"a": number}

    render(Result("get", {}, [Table("messages", rows())]), Format.JSONL, stream, Look(80))
    lines = ['{"a": 0}\n', '{"a": 0}\n{"a": 1}\n']
    assert seen == [[], lines[:1], lines]


def test_a_terminal_shows_the_main_facts_and_counts_the_others() -> None:
    result = Result("info", {"compat": "4.9", "free_bytes": 1}, main_facts=("compat",))
    assert shown(Format.PLAIN, result) == "compat  4.9\nand 1 more (--wide)\n"
    assert shown(Format.PLAIN, result, None) == "compat      4.9\nfree_bytes  1 B\n"


@pytest.mark.parametrize(
    ("facts", "code", "color"),
    [
        ({}, 0, 32),
        ({"lost_messages": 0}, 1, 33),
        ({"lost_messages": 1}, 1, 31),
        ({"worst_rank": 2}, 1, 31),
        ({"worst_rank": 3}, 1, 33),
        ({"worst_rank": 0}, 0, 32),
    ],
)
def test_the_verdict_has_the_colour_of_what_it_says(facts: dict[str, int], code: int, color: int) -> None:
    stream = io.StringIO()
    render(Result("doctor", dict(facts), exit_code=code, verdict="so"), Format.TABLE, stream, Look(80, color=True))
    assert stream.getvalue().startswith(f"\x1b[1;{color}mso\x1b[0m\n")


def test_lost_and_damaged_are_red_doubtful_yellow_and_sound_green_and_the_words_say_so_too() -> None:
    rows = [
        {"rank": 2, "state": "lost", "lost_bytes": 7},
        {"rank": 3, "state": "doubtful", "lost_bytes": 0},
        {"rank": 4, "state": "sound", "lost_bytes": 0},
    ]
    result = Result("doctor", {"damaged_count": 3, "log_end": 3}, [Table("places", rows)], 1, "so")
    texts = []
    for color in (True, False):
        stream = io.StringIO()
        render(result, Format.TABLE, stream, Look(80, color=color))
        texts.append(stream.getvalue())
    red, yellow, green = (re.findall(rf"\x1b\[{code}m *([^\x1b ]+)", texts[0]) for code in (31, 33, 32))
    assert (red, yellow, green) == (["3", "2", "lost", "7"], ["3", "doubtful"], ["sound"])
    assert re.sub(r"\x1b\[[\d;]*m", "", texts[0]) == texts[1]


@pytest.mark.parametrize(
    ("column", "word", "color"),
    [
        ("state", "behind", 33), ("state", "no-queue", 33), ("state", "below-min", 31), ("state", "ok", 32),
        ("state", "overwritten", 33), ("grade", "body-crc", 31), ("main_state", "missing", 31),
        ("backup_state", "missing", None), ("temporary_state", "missing", None), ("starts", "no", 31),
        ("starts", "yes", 32), ("is_consumed", "no", None),
    ],
)  # fmt: skip
def test_the_words_of_a_state_have_its_colour(column: str, word: str, color: int | None) -> None:
    stream = io.StringIO()
    render(Result("lag", {}, [Table("rows", [{column: word}])], 1, "so"), Format.TABLE, stream, Look(80, color=True))
    found = re.findall(rf"\x1b\[(\d+)m{word}", stream.getvalue())
    assert found == ([] if color is None else [str(color)])


def test_columns_without_room_are_dropped_and_named_and_wide_shows_them() -> None:
    row = {"topic": "Orders", "first_ms": 1, "last_ms": 2, "messages": (1 << 63) - 1}
    result = Result("usage", {}, [Table("usage", [row])])
    for form in (Format.TABLE, Format.PLAIN):
        assert "not shown: messages (--wide)" in shown(form, result, 50)
        assert str((1 << 63) - 1) in shown(form, result, None)


@pytest.mark.parametrize("form", [Format.TABLE, Format.PLAIN])
@pytest.mark.parametrize("width", [30, 40, 80, 120])
def test_no_line_is_wider_than_the_terminal_whatever_the_script(form: Format, width: int) -> None:
    topics = ("订单主题" * 10, "🙂" * 30, "plain-topic-of-some-length-" * 4)
    rows = [{"topic": topic, "messages": 12, "body": f"{topic} 日本語 {topic}"} for topic in topics]
    text = shown(form, Result("get", {}, [Table("messages", rows)]), width)
    assert max(map(text_width, text.splitlines())) <= width
    numbers = [text_width(line.split("12")[0]) for line in text.splitlines() if re.search(r" 12( |$)", line)]
    assert len(numbers) == 3
    assert len(set(numbers)) == 1


def test_the_verdict_is_the_first_line_and_only_people_see_it() -> None:
    result = Result("get", {"status": "FOUND"}, [Table("messages", ROWS)], verdict=lambda: "2 messages")
    for form in (Format.TABLE, Format.PLAIN, Format.MARKDOWN):
        assert shown(form, result).splitlines()[0] == "2 messages"
    assert "2 messages" not in shown(Format.JSON, result)


MESSAGES_ASKED = [
    ("get", "--log-offset", "0"),
    ("get", "--log-offset", "99999999"),
    ("get", "TopicB"),
    ("get", "TopicB", "--queue", "0", "--offset", "99999"),
    ("get", "TopicA", "--key", "order4"),
    ("get", "TopicA", "--key", "nosuch"),
    ("index-query", "TopicA", "all"),
    ("index-query", "TopicA", "nosuch"),
    ("find", "order4"),
    ("find", "nosuch"),
]


@pytest.mark.parametrize("body", ["base64", "none"])
def test_csv_of_messages_has_one_heading_whatever_was_found(body: str) -> None:
    asked = [(*words, *(("--body", body) if words[0] != "find" else ())) for words in MESSAGES_ASKED]
    headings = {
        rmqctl("--format", "csv", *words, store=golden("normal").store).out.partition("\r\n")[0]
        for words in (asked if body == "base64" else asked[:-2])
    }
    names = ROW_NAMES if body == "base64" else ROW_NAMES_WITHOUT_BODY
    assert headings == {",".join(names)}


DUMPED = [
    ("normal", "index"),
    ("corrupt-mid", "commitlog"),
    ("many", "consumequeue"),
    ("five/timer", "timer"),
    ("five/timer", "state"),
    ("normal", "checkpoint"),
]


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "words"), [
    ("normal", ("get", "TopicB", "--limit", "0")), *((name, ("dump", kind)) for name, kind in DUMPED),
])  # fmt: skip
def test_csv_holds_each_value_of_each_row(name: str, words: tuple[str, ...]) -> None:
    root = five(name.removeprefix("five/")) / "store" if "/" in name else golden(name).store
    rows = map(json.loads, rmqctl("--format", "jsonl", *words, store=root).out.splitlines())
    table = csv.DictReader(io.StringIO(rmqctl("--format", "csv", *words, store=root).out, newline=""))
    for row, cells in zip(rows, table, strict=True):
        assert {key for key, value in row.items() if value not in (None, "")} <= {
            key for key, cell in cells.items() if cell
        }


def test_csv_is_rfc_4180() -> None:
    text = shown(Format.CSV, Result("get", {}, [Table("messages", [{"tags": 'a "b", c', "body": "x\ny"}])]))
    assert text == 'tags,body\r\n"a ""b"", c","x\ny"\r\n'


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"), ("+cmd", "'+cmd"), ("-cmd|x", "'-cmd|x"), ("@SUM(A1)", "'@SUM(A1)"), ("\t=1", r"\t=1"),
        ("\r=1", r"\r=1"), ("\x1b[31m", r"\x1b[31m"), ("-5", "-5"), ("+1.5e3", "+1.5e3"), (-5, "-5"), (-0.5, "-0.5"),
        ("a=b", "a=b"), ("'", "'"), ("-", "'-"), ("-²", "'-²"),
    ],
)  # fmt: skip
def test_no_spreadsheet_and_no_terminal_obeys_a_cell_of_csv(value: object, cell: str) -> None:
    text = shown(Format.CSV, Result("get", {}, [Table("messages", [{"tags": value, "body": 1}])]))
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["tags", "body"], [cell, "1"]]


def test_json_escapes_what_a_terminal_may_obey_and_what_no_encoding_takes() -> None:
    nasty = "\x1b[31m \x9b31m \x7f \u202e \udcff"
    text = shown(Format.JSONL, Result("get", {}, [Table("messages", [{"body": nasty}])]))
    assert json.loads(text) == {"body": nasty}
    assert text.rstrip("\n").isprintable()
    text.encode()


@pytest.mark.parametrize(
    ("times", "shows"), [(TimeForm.MS, "1234567890123"), (TimeForm.UTC, "2009-02-13T23:31:30.123Z")]
)
def test_times_are_shown_as_asked_for(times: TimeForm, shows: str) -> None:
    stream = io.StringIO()
    render(Result("get", {"begin_ms": 1234567890123}), Format.PLAIN, stream, Look(times=times))
    assert shows in stream.getvalue()


def test_a_verdict_is_folded_for_people_and_whole_in_documents() -> None:
    verdict = "a long sentence of words " * 12
    result = Result("get", {"status": "FOUND"}, [Table("messages", ROWS)], verdict=verdict.strip())
    assert shown(Format.MARKDOWN, result).splitlines()[0] == verdict.strip()
    assert max(map(len, shown(Format.PLAIN, result).splitlines())) <= 80
    assert max(map(len, shown(Format.TABLE, result).splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        ("flush_count", "flushes"),
        ("index_file_count", "index files"),
        ("added_count", "added"),
        ("entry_count", "entries"),
    ],
)
def test_counts_are_shown_with_their_plural(name: str, shows: str) -> None:
    assert words(name) == shows
