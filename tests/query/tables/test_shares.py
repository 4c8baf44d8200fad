"""Shares of the tables: which may have a wanted row, and the whole rows of each."""

from __future__ import annotations

import os
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from store.files.store_reader import StoreReader
from store.formats.java import string_hash
from store.formats.queue_unit import PRE_BLANK, QueueUnit
from store.query.tables import shares
from store.query.tables.request import Request
from store.query.tables.row_filter import Condition, Conditions
from store.query.tables.schema import TABLES, arrow_schema
from store.query.tables.shares import plan, read
from tests.support.logs import record
from tests.support.small_log import START_MS, SmallLog, open_index

SIZE, RECORD, MS = 400, 96, 1_700_000_000_000
BLANK = struct.pack(">iI", SIZE - 2 * RECORD, 0xCBD43194)


def moment(time_ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=time_ms)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> StoreReader:
    """Three segments: two records and a blank, a record and damage, and zeros; two queues; an index of eleven keys."""
    root, log = tmp_path_factory.mktemp("shares"), SmallLog()
    first = record(b"T") + record(b"U", position=RECORD, store_timestamp_ms=MS + 1) + BLANK
    bad = bytearray(record(b"T", position=SIZE + RECORD))
    bad[4] = 1
    segments = first, record(b"T", position=SIZE, store_timestamp_ms=MS + 2) + bad, b""
    for number, segment in enumerate(segments):
        path = root / "commitlog" / f"{number * SIZE:020d}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(segment.ljust(SIZE, b"\0"))
        os.utime(path, (number, MS / 1000 + number))
    units = [PRE_BLANK, QueueUnit(0, RECORD, 7), QueueUnit(0, 0, 0), QueueUnit(-1, 9, 0), QueueUnit(0, RECORD, 8)]
    for name, data in (("T/0", units), ("U/3", [QueueUnit(RECORD, RECORD, -1)])):
        folder = root / "consumequeue" / name
        folder.mkdir(parents=True)
        for start in range(0, len(data), 3):
            piece = b"".join(unit.encode() for unit in data[start : start + 3])
            (folder / f"{20 * start:020d}").write_bytes(piece.ljust(60, b"\0"))
    for number in range(11):
        log.put(keys=f"k{number:02d}")
    index = open_index(root)
    log.dispatch_to(index)
    index.close()
    return StoreReader(str(root))


def rows(files: StoreReader, table: str, *conditions: Condition, **options: Any) -> list[dict[str, Any]]:
    request, wanted = Request(files.address, table, **options), Conditions(list(conditions))
    schema = arrow_schema(TABLES[table])
    batches = [batch for share in plan(files, request, wanted) for batch in read(files, request, wanted, share, schema)]
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_segment_is_a_row_with_its_ends_and_its_outcome(files: StoreReader) -> None:
    found = rows(files, "segments")
    names = [f"{files.address}/commitlog/{number * SIZE:020d}" for number in range(3)]
    assert [tuple(row.values())[:9] for row in found] == [
        (names[0], 0, SIZE, 2 * RECORD, 2, moment(MS), moment(MS + 1), moment(MS), "blank"),
        (names[1], SIZE, SIZE, RECORD, 1, moment(MS + 2), moment(MS + 2), moment(MS + 1000), "damage"),
        (names[2], 2 * SIZE, SIZE, 0, 0, None, None, moment(MS + 2000), "end"),
    ]
    assert [row["reason"] is not None for row in found] == [False, True, False]


def test_a_row_of_a_segment_ends_at_its_first_damage(tmp_path: Path) -> None:
    path = tmp_path / "commitlog" / f"{0:020d}"
    path.parent.mkdir()
    path.write_bytes((record(b"T") + b"x" * 8 + record(b"T", position=RECORD + 8)).ljust(SIZE, b"\0"))
    (found,) = rows(StoreReader(str(tmp_path)), "segments")
    assert (found["record_count"], found["used_bytes"], found["outcome"]) == (1, RECORD, "damage")


@pytest.mark.parametrize(
    ("sign", "value", "starts"),
    [("==", 400, [400]), ("<=", 399, [0]), (">=", 401, [800]), (">=", 400, [400, 800]), ("==", 401, [])],
)
def test_segments_are_chosen_by_their_starts(sign: str, value: int, starts: list[int], files: StoreReader) -> None:
    assert [row["file_start"] for row in rows(files, "segments", Condition("file_start", sign, value))] == starts


@pytest.mark.parametrize(
    ("sign", "value", "segments"),
    [
        ("<=", -1, []),
        ("<=", 0, [0]),
        ("<=", 399, [0]),
        ("<=", 400, [0, 400]),
        ("==", 399, [0]),
        ("==", 400, [400]),
        (">=", 399, [0, 400, 800]),
        (">=", 400, [400, 800]),
        (">=", 1199, [800]),
        ("==", 1200, []),
    ],
)
@pytest.mark.parametrize("parts", [None, 1])
def test_segments_without_a_wanted_log_offset_are_not_read(
    sign: str, value: int, segments: list[int], parts: int | None, files: StoreReader
) -> None:
    request = Request(files.address, "messages", parts_per_segment=parts)
    found: list[Any] = list(plan(files, request, Conditions([Condition("log_offset", sign, value)])))
    assert [(part.log_start, part.log_stop) for part in found] == [(start, start + SIZE) for start in segments]


@pytest.mark.parametrize(("value", "starts"), [(0, [0, 100]), (100, [100, 200]), (99, [0, 100]), (150, [100, 200])])
def test_of_a_segment_the_parts_around_a_log_offset_are_read(value: int, starts: list[int], files: StoreReader) -> None:
    request = Request(files.address, "messages", part_bytes=100)
    conditions = Condition("log_offset", ">=", value), Condition("log_offset", "<=", value + 99)
    found: list[Any] = list(plan(files, request, Conditions(conditions)))
    assert [part.log_start for part in found] == [at for at in starts if at <= value + 99 and at + 99 >= value]


def test_messages_are_read_past_damage(files: StoreReader) -> None:
    columns = ("topic", "log_offset", "size", "store_timestamp", "body", "crc_ok")
    found = rows(files, "messages")
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("T", 0, RECORD, moment(MS), b"body", True),
        ("U", RECORD, RECORD, moment(MS + 1), b"body", True),
        ("T", SIZE, RECORD, moment(MS + 2), b"body", True),
    ]
    assert [row["body"] for row in rows(files, "messages", with_body=False)] == [None] * 3
    assert [row["log_offset"] for row in rows(files, "messages", Condition("topic", "==", "U"))] == [RECORD]


@pytest.mark.parametrize("most", [1, 2, 3, 4096])
def test_a_queue_has_a_row_for_each_written_entry(
    most: int, files: StoreReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "BATCH_ROWS", most)
    expected = [
        ("T", 0, 0, 0, 0x7FFFFFFF, 0, True),
        ("T", 0, 1, 0, RECORD, 7, False),
        ("T", 0, 4, 0, RECORD, 8, False),
        ("U", 3, 0, RECORD, RECORD, -1, False),
    ]
    assert [tuple(row.values()) for row in rows(files, "consumequeue")] == expected
    for condition, part in (
        (Condition("topic", "==", "U"), expected[3:]),
        (Condition("queue_id", "<=", 2), expected[:3]),
        (Condition("queue_id", "<=", 3), expected),
        (Condition("topic", "==", "X"), []),
    ):
        assert [tuple(row.values()) for row in rows(files, "consumequeue", condition)] == part


@pytest.mark.parametrize("most", [1, 10, 11, 4096])
def test_an_index_file_has_a_row_for_each_entry(most: int, files: StoreReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "BATCH_ROWS", most)
    (path,) = (Path(files.address) / "index").iterdir()
    found = rows(files, "index")
    step = found[1]["log_offset"]
    assert [tuple(row.values())[:5] for row in found] == [
        (str(path), number + 1, abs(string_hash(f"T#k{number:02d}")), number * step, moment(START_MS + 1000 * number))
        for number in range(11)
    ]
    slots: dict[int, int] = {}
    for number, row in enumerate(found, 1):
        assert row["previous_entry"] == slots.get(row["key_hash"] % 7, 0)
        slots[row["key_hash"] % 7] = number


def test_an_index_file_without_a_header_or_a_geometry_has_no_row(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "commitlog").mkdir()
    for number, size in enumerate((0, 39, 40, 61)):
        (tmp_path / "index" / f"2024010100000000{number}").write_bytes(bytes(size))
    assert rows(StoreReader(str(tmp_path)), "index") == []
