"""Files of messages for put: which are read, in which blocks, and the message of each row of a table."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from rmqctl import put_files
from rmqctl.put_files import Source, _blocks, _folder_columns, _message, _milliseconds, bytes_of, files_of, read_blocks

ROW = {
    "topic": "T",
    "born_host": "1.2.3.4:5",
    "store_host": "6.7.8.9:10",
    "body_state": "whole",
    "queue_id": 1,
    "flag": 2,
    "sys_flag": 3,
    "reconsume_times": 4,
    "prepared_transaction_offset": 5,
    "born_timestamp": 1000,
    "store_timestamp": 2001,
    "crc_ok": True,
    "body": b"body",
    "properties": [("a", "b")],
    "property_bytes": b"",
}
MESSAGE = {
    **{name: ROW[name] for name in ROW if name not in ("born_timestamp", "store_timestamp", "property_bytes")},
    "born_timestamp_ms": 1000,
    "store_timestamp_ms": 2001,
    "body": "Ym9keQ==",
    "properties": {"a": "b"},
}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, {}),
        ({"queue_id": "1", "flag": "2", "crc_ok": "true", "body": "Ym9keQ==", "properties": '{"a":"b"}'}, {}),
        ({"crc_ok": "false"}, {"crc_ok": False}),
        ({"crc_ok": False}, {"crc_ok": False}),
        ({"properties": ""}, {"properties": {}}),
        ({"properties": []}, {"properties": {}}),
        ({"property_bytes": b"\1"}, {"property_bytes": "AQ=="}),
        ({"property_bytes": "AQ=="}, {"property_bytes": "AQ=="}),
        ({"tags": "t", "uniq_key": "u", "keys": ["k"]}, {"tags": "t", "uniq_key": "u", "keys": ["k"]}),
        ({"keys": '["k", "l"]', "delay_level": "3"}, {"keys": ["k", "l"], "delay_level": 3}),
        ({"keys": "k l", "delay_level": 3}, {"keys": "k l", "delay_level": 3}),
        *(({"tags": empty, "uniq_key": empty, "keys": empty, "delay_level": empty}, {}) for empty in (None, "")),
    ],
)
def test_a_row_of_a_table_is_a_message(changed: dict[str, Any], expected: dict[str, Any]) -> None:
    wanted = {name: value for name, value in {**MESSAGE, **expected}.items() if value is not None}
    assert _message({**ROW, **changed}) == wanted


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        *(({"queue_id": value}, f"queue_id is not a whole number: {value!r}")
          for value in (0.5, 3.0, True, None, "0.5", "1_0", " 1", "１", "")),
        ({"flag": 1.7}, "flag is not a whole number: 1.7"),
        ({"outer_queue_offset": 1.5}, "outer_queue_offset is not a whole number: 1.5"),
        ({"topic": b"T"}, "topic is not text"),
        ({"born_host": 7}, "born_host is not text"),
        ({"body": None}, "body is not bytes"),
        ({"property_bytes": 7}, "property_bytes is not bytes"),
        ({"tags": b"t"}, "tags is not text"),
        ({"uniq_key": 7}, "uniq_key is not text"),
        ({"keys": "[k"}, "keys is not a list of texts"),
        ({"keys": "[" * 100_000}, "keys is not a list of texts"),
        ({"delay_level": 1.5}, "delay_level is not a whole number: 1.5"),
        ({"properties": 7}, "properties is not a map of texts"),
        ({"properties": [7]}, "properties is not a map of texts"),
        ({"properties": "[" * 100_000}, "properties has brackets inside brackets without end"),
        ({"store_timestamp": 1.5}, "store_timestamp is not a time: 1.5"),
        ({"born_timestamp": True}, "born_timestamp is not a time: True"),
    ],
)  # fmt: skip
def test_a_cell_of_another_kind_is_named_with_its_column(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=r"is not|brackets") as refused:
        _message({**ROW, **changed})
    assert str(refused.value) == problem


def test_a_mark_of_utf_8_in_front_of_csv_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "topic=T/m.csv"
    path.parent.mkdir()
    path.write_text(f"{HEAD}\n{CELLS}\n", encoding="utf-8-sig")
    assert len(rows_of(path, str(tmp_path))) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (1500, 1500),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T00:00:01.999Z", 1999),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.0009", 0),
        ("1969-12-31T23:59:59.999", -1),
        ("0001-01-01T00:00:00.000Z", -62135596800000),
        ("0000-12-31T23:59:59.999Z", -62135596800001),
        ("0000-02-29T00:00:00.000Z", -62162121600000),
        ("-1-12-31T23:59:59.999Z", -62167219200001),
        ("-0001-12-31T23:59:59.999Z", -62167219200001),
        ("-290308-12-21T19:59:05.226Z", -9223372036854774),
        ("9999-12-31T23:59:59.999Z", 253402300799999),
        ("10000-01-01T00:00:00.000Z", 253402300800000),
        ("+10000-01-01T00:00:00.000Z", 253402300800000),
        ("294247-01-10T04:00:54.774Z", 9223372036854774),
    ],
)
def test_a_time_of_a_table_is_in_milliseconds(value: int | str, expected: int) -> None:
    assert _milliseconds(value, "born_timestamp") == expected


@pytest.mark.parametrize("value", [None, ""])
def test_a_time_beyond_those_of_a_table_is_named(value: str | None) -> None:
    with pytest.raises(ValueError, match="no born_timestamp: it is beyond the times of a table"):
        _milliseconds(value, "born_timestamp")


class Stream:
    """A pipe that gives these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = [*pieces, b""]

    def read1(self, most: int) -> bytes:
        assert most == put_files.BLOCK_SIZE
        return self._pieces.pop(0)


@pytest.mark.parametrize(
    ("pieces", "blocks"),
    [
        ([], []),
        ([b"a\n"], [b"a\n"]),
        ([b"a"], [b"a"]),
        ([b"a\nb"], [b"a\n", b"b"]),
        ([b"a", b"b", b"c\nd\ne", b"f\n", b"g"], [b"abc\nd\n", b"ef\n", b"g"]),
        ([b"\n"], [b"\n"]),
    ],
)
def test_whole_lines_are_given_as_soon_as_they_are_there(pieces: list[bytes], blocks: list[bytes]) -> None:
    source = Source("file, ")
    found = list(_blocks(cast(Any, Stream(*pieces)), source))
    assert [block.text for block in found] == blocks
    assert all(block.source is source for block in found)


def test_a_place_counts_from_one_after_the_lines_of_earlier_blocks() -> None:
    assert [Source().place(0), Source("a/b, ", "row", 7).place(2)] == ["line 1", "a/b, row 10"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "b.jsonl": "b\n", "a/topic=T%2F1/queue_id=__HIVE_DEFAULT_PARTITION__/x.jsonl": "a\n", "c.txt": "c",
        "_SUCCESS.jsonl": "", ".hidden.csv": "",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_files_of_a_folder_are_read_in_order_by_their_suffixes(folder: Path) -> None:
    session = cast(Any, None)
    nested = "a/topic=T%2F1/queue_id=__HIVE_DEFAULT_PARTITION__/x.jsonl"
    assert [str(path.relative_to(folder)) for path in files_of(str(folder))] == [nested, "b.jsonl"]
    blocks = [(block.text, block.source.place(0)) for block in read_blocks(session, str(folder))]
    assert blocks == [(b"a\n", f"{nested}, line 1"), (b"b\n", "b.jsonl, line 1")]
    assert [block.source.place(0) for block in read_blocks(session, str(folder / "b.jsonl"))] == ["line 1"]
    assert (bytes_of(str(folder)), bytes_of(str(folder / "c.txt")), bytes_of("-")) == (4, 1, 0)
    (folder / "d.csv").write_text("topic\n")
    assert bytes_of(str(folder)) is None


def test_a_folder_without_a_file_of_messages_is_refused_and_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match=r"no file in .* ends with .parquet, .csv, .jsonl"):
        files_of(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        files_of(str(tmp_path / "missing"))


def test_stdin_is_read_without_a_place() -> None:
    session = cast(Any, SimpleNamespace(environment=SimpleNamespace(stdin=io.BytesIO(b"a\nb"))))
    assert [(block.text, block.source) for block in read_blocks(session, "-")] == [
        (b"a\nb"[:2], Source()),
        (b"b", Source()),
    ]


def test_columns_of_a_folder_are_unquoted_and_the_word_for_none_is_none(folder: Path) -> None:
    nested = folder / "topic=T%2F1/queue_id=__HIVE_DEFAULT_PARTITION__/a=b=c/x=y.csv"
    assert _folder_columns(nested) == {"topic": "T/1", "queue_id": None, "a": "b=c"}


def rows_of(path: Path, name: str = "") -> list[tuple[list[dict[str, Any]], str]]:
    blocks = read_blocks(cast(Any, None), name or str(path))
    return [([json.loads(line) for line in block.text.splitlines()], block.source.place(0)) for block in blocks]


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (1, [1]), (64, [64]), (65, [64, 1]), (128, [64, 64])])
def test_rows_of_parquet_are_messages_in_blocks(count: int, sizes: list[int], tmp_path: Path) -> None:
    times = {name: [datetime(1970, 1, 1, 0, 0, 1, 999_999)] * count for name in ("born_timestamp", "store_timestamp")}
    table = pa.table({**{name: [value] * count for name, value in ROW.items() if name != "properties"}, **times})
    strings = pa.map_(pa.string(), pa.string())
    table = table.append_column("properties", pa.array([[("a", "b")]] * count, strings))
    pq.write_table(table, tmp_path / "m.parquet")
    found = rows_of(tmp_path / "m.parquet")
    assert [len(rows) for rows, _ in found] == sizes
    expected = {**MESSAGE, "born_timestamp_ms": 1999, "store_timestamp_ms": 1999}
    assert all(row == expected for rows, _ in found for row in rows)
    assert all(place == "row 1" for _, place in found)


HEAD = ",".join(name for name in ROW if name != "topic")
CELLS = 'h:1,h:2,whole,1,2,3,4,5,1970-01-01T00:00:01Z,1970-01-01T00:00:02Z,true,Ym9keQ==,"{""a"":""b""}",'


def test_rows_of_csv_are_messages_with_the_columns_of_their_folder(tmp_path: Path) -> None:
    path = tmp_path / "topic=T/m.csv"
    path.parent.mkdir()
    path.write_text(f"{HEAD}\n{CELLS}\n")
    expected = {**MESSAGE, "born_host": "h:1", "store_host": "h:2", "store_timestamp_ms": 2000}
    assert rows_of(path, str(tmp_path)) == [([expected], "topic=T/m.csv, row 1")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{HEAD}\n{CELLS},x\n", "not as many cells as the heading has"),
        (f"{HEAD}\n{CELLS[:-1]}\n", "not as many cells as the heading has"),
        (f"{HEAD}\n{CELLS}\n{CELLS.replace(',1,2,', ',x,2,')}\n", "row 2: queue_id is not a whole number: 'x'"),
        (f"{HEAD[:-15]}\n{CELLS[:-1]}\n", "row 1: no column property_bytes, which export writes without --no-body"),
    ],
)
def test_a_faulty_row_of_csv_ends_the_file_after_the_rows_before_it(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "topic=T/m.csv"
    path.parent.mkdir()
    path.write_text(text)
    given: list[Any] = []
    with pytest.raises(ValueError, match="csv") as caught:
        given.extend(read_blocks(cast(Any, None), str(path)))
    assert str(caught.value) == f"m.csv, {problem}"
    assert [block.text.count(b"\n") for block in given] == ([1] if "row 2" in problem else [])
    with pytest.raises(ValueError, match="csv") as caught:
        list(read_blocks(cast(Any, None), str(tmp_path)))
    assert str(caught.value) == f"topic=T/m.csv, {problem}"


def test_a_cell_of_csv_may_be_as_long_as_a_body(tmp_path: Path) -> None:
    path = tmp_path / "topic=T/m.csv"
    path.parent.mkdir()
    path.write_text(f"{HEAD}\n{CELLS.replace('Ym9keQ==', 'A' * 200_000)}\n")
    before = csv.field_size_limit(1000)
    try:
        [([row], _)] = rows_of(path, str(tmp_path))
    finally:
        csv.field_size_limit(before)
    assert row["body"] == "A" * 200_000
