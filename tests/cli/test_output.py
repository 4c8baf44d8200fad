"""The renderer: one value, seven forms."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from rmqctl.output import Format, render
from rmqctl.result import Result, Table

ROWS = [
    {"queue_offset": 9, "store_timestamp_ms": 1000, "tags": None, "keys": ["a", "b"], "body": "hello"},
    {"queue_offset": 10, "store_timestamp_ms": 0, "tags": "T|U", "keys": [], "body": "\x1b[31mred\nline"},
]


def shown(form: Format, result: Result | None = None, width: int = 80) -> str:
    stream = io.StringIO()
    result = result or Result("get", {"status": "FOUND", "next_offset": 11}, [Table("messages", ROWS)])
    render(result, form, stream, width=width)
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
    rows = list(csv.DictReader(io.StringIO(shown(Format.CSV))))
    assert [row["queue_offset"] for row in rows] == ["9", "10"]
    assert rows[0]["keys"] == '["a", "b"]'
    assert rows[1]["body"] == ROWS[1]["body"]


def test_a_result_without_tables_is_one_row_of_its_facts() -> None:
    result = Result("undo", {"id": "x", "files": 3})
    assert shown(Format.CSV, result) == "id,files\nx,3\n"
    assert json.loads(shown(Format.JSONL, result)) == {"id": "x", "files": 3}


@pytest.mark.parametrize("form", [Format.TABLE, Format.PLAIN, Format.MARKDOWN])
def test_people_see_times_as_dates_and_no_control_characters(form: Format) -> None:
    text = shown(form, width=120)
    assert "1970-01-01T00:00:01.000Z" in text
    assert "\x1b" not in text
    assert "\\x1b[31mred\\nline" in text


def test_markdown_escapes_what_would_end_a_cell() -> None:
    assert "T\\|U" in shown(Format.MARKDOWN)


@pytest.mark.parametrize("width", [20, 40, 80])
def test_numbers_are_never_cut_short_however_narrow_the_terminal(width: int) -> None:
    number = (1 << 63) - 1
    row = {"log_offset": number, "body": "x" * 300}
    assert str(number) in shown(Format.TABLE, Result("get", {}, [Table("messages", [row])]), max(width, 20))


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


def test_several_tables_have_titles() -> None:
    text = shown(Format.PLAIN, Result("recover", {}, [Table("actions", ROWS), Table("lost", ROWS)]))
    assert "actions:" in text
    assert "lost:" in text


def test_on_a_narrow_terminal_no_segment_name_and_no_moment_is_torn() -> None:
    segment = "/data/rocketmq/store/commitlog/00000000001073741824"
    row = {"file": segment, "topic": "Orders", "messages": 1, "share_percent": 12.5, "first_ms": 1, "last_ms": 2}
    out = shown(Format.TABLE, Result("usage", {}, [Table("usage", [row])]), 60)
    lines = [line.split() for line in out.splitlines()]
    assert any("00000000001073741824" in words for words in lines)
    assert any(words.count("1970-01-01T") == 2 for words in lines)
    assert "12.50 %" in out
