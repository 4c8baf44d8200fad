"""The log's segments as entries, and the records that a broker wrote for another message: whole rows."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.errors import StoreIOError, UnsupportedFormat
from store.files.filesystem import Filesystem
from store.files.store_reader import StoredFile, StoreReader
from store.formats.dledger import DLEDGER_HEADER
from store.formats.message import TRANSACTION_COMMIT, TRANSACTION_PREPARED, encode_blank
from store.formats.queue_unit import UNIT
from store.formats.run import Run
from store.layout import StoreLayout
from store.structures.commitlog.guard import refuse
from store.structures.commitlog.property_crc import wrong_property_crcs
from store.structures.commitlog.rewritten import queue_records, read_unit, records_with, rewritten_records
from store.structures.commitlog.rows import EMPTY_SEGMENT, file_start_of, files, rows
from store.structures.commitlog.scan import scan_segment
from store.structures.entry import Asked
from tests.support.bad_sectors import BadSectors
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.logs import record
from tests.support.small_log import SmallLog, SmallSegment

START = 4096
SIZE = len(record())
JUNK = b"\1" * 10
Part = bytes | Callable[[int], bytes]


def plain(at: int) -> bytes:
    return record(position=at)


def entry(at: int) -> bytes:
    """A record in an entry of a group's log."""
    return DLEDGER_HEADER.pack(1, 48 + SIZE, 3, 2, at, 0, 0, 0, SIZE) + plain(at + 48)


def reader_of(root: Path, *parts: Part, start: int = START, name: str = "") -> StoreReader:
    data = b""
    for part in parts:
        data += part if isinstance(part, bytes) else part(start + len(data))
    (root / "commitlog").mkdir(exist_ok=True)
    (root / "commitlog" / (name or f"{start:020d}")).write_bytes(data)
    return StoreReader(str(root))


def entries(reader: StoreReader, asked: Asked) -> list[tuple[Any, ...]]:
    return [
        (one.kind, one.number, one.start, len(one.data), one.extra.get("detail"), one.is_fault)
        for file in files(reader, asked)
        for one in rows(reader, file, asked)
    ]


END_DETAIL = "nothing was written from here on"
TWO = [("record", START, 0, SIZE, None, False), ("record", START + SIZE, SIZE, SIZE, None, False)]
BAD = ("damage", START + 2 * SIZE, 2 * SIZE, 64, "unknown magic", True)
THIRD = ("record", START + 2 * SIZE + 10, 2 * SIZE + 10, SIZE, None, False)
BEHIND = START + 3 * SIZE + 10
LAST = ("end", BEHIND, BEHIND - START, 0, END_DETAIL, False)


@pytest.mark.parametrize(
    ("first", "is_exact", "found"),
    [
        (0, False, [*TWO, BAD, THIRD, LAST]), (START - 1, True, [*TWO, BAD, THIRD, LAST]),
        (START + 1, False, [TWO[1], BAD, THIRD, LAST]), (START + SIZE, False, [TWO[1], BAD, THIRD, LAST]),
        (START + SIZE + 1, False, [THIRD, LAST]),
        (START + 2 * SIZE + 1, True, [("damage", BAD[1] + 1, BAD[2] + 1, 64, "unknown magic", True), THIRD, LAST]),
        (BEHIND + 999, False, []),
    ],
)  # fmt: skip
def test_a_segment_is_shown_from_the_record_asked_for(
    first: int, is_exact: bool, found: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    reader = reader_of(tmp_path, plain, plain, JUNK, plain, bytes(100))
    assert entries(reader, Asked(first=first, is_exact=is_exact)) == found


def test_a_blank_is_shown_with_its_fields(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, plain, encode_blank(50), bytes(42))
    (file,) = files(reader, Asked())
    first, blank = rows(reader, file, Asked(with_fields=True))
    assert (len(first.fields), first.message.topic if first.message else "") == (20, "Topic")
    assert (blank.kind, blank.number, blank.start, blank.data) == ("blank", START + SIZE, SIZE, encode_blank(50))
    assert [(one.name, one.value) for one in blank.fields] == [("size", 50), ("magic", 0xCBD43194)]
    assert [one.kind for one in rows(reader, file, Asked(wanted=lambda raw: False))] == ["blank"]


def test_entries_of_a_group_are_shown_before_their_records(tmp_path: Path) -> None:
    reader, each = reader_of(tmp_path, entry, entry, entry, bytes(100)), 48 + SIZE
    found = [
        row
        for at in (0, each, 2 * each)
        for row in (
            ("dledger", START + at, at, 48, None, False),
            ("record", START + at + 48, at + 48, SIZE, None, False),
        )
    ]
    assert entries(reader, Asked()) == [*found, ("end", START + 3 * each, 3 * each, 0, END_DETAIL, False)]
    (file,) = files(reader, Asked())
    assert [one.fields[4].value for one in rows(reader, file, Asked()) if one.kind == "dledger"] == [
        START, START + each, START + 2 * each,
    ]  # fmt: skip


def test_a_segment_of_0_bytes_is_a_fault(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    assert entries(reader, Asked()) == [("damage", START, 0, 0, EMPTY_SEGMENT, True)]


@pytest.mark.parametrize(("parts", "start"), [([plain], START), ([entry], START), ([b"\1" * 300], 0), ([b"\1"], 0)])
def test_a_segment_without_its_name_begins_where_its_first_record_says(
    parts: list[Part], start: int, tmp_path: Path
) -> None:
    reader = reader_of(tmp_path, *parts, name="lost")
    assert file_start_of(reader, StoredFile("commitlog/lost", 0, 999, 0)) == start


@pytest.mark.parametrize(
    ("first", "left"), [(0, 3), (START - 1, 3), (START, 2), (2 * START - 1, 2), (2 * START, 1), (9 * START, 1)]
)
def test_segments_that_end_before_the_first_entry_are_passed_over(first: int, left: int, tmp_path: Path) -> None:
    for start in (0, START, 2 * START):
        reader = reader_of(tmp_path, plain, start=start)
    assert [file.number for file in files(reader, Asked(first=first))] == [0, START, 2 * START][3 - left :]


class Log:
    """A commit log in memory."""

    def __init__(self, *logs: SmallLog) -> None:
        self.data = logs[0].data

    def scan(self) -> Any:
        return scan_segment(SmallSegment(memoryview(self.data), file_start=7), capacity=3)

    def read(self, log_offset: int, size: int) -> memoryview | None:
        return memoryview(self.data)[log_offset : log_offset + size] if log_offset < len(self.data) else None


def made_log() -> tuple[Any, list[int]]:
    log = SmallLog()
    marked = {1, 3, 4, 8}
    places = [
        log.put(
            sys_flag=TRANSACTION_COMMIT if number in (0, 4, 8) else TRANSACTION_PREPARED if number == 3 else 0,
            keys="REAL_TOPIC" if number == 2 else "k",
            **({"REAL_TOPIC": "T"} if number in marked else {}),
        )
        for number in range(9)
    ]
    log.data += bytes(100)
    return Log(log), places


def test_records_with_a_property_and_those_that_commit_are_given_in_the_logs_order() -> None:
    log, places = made_log()
    assert [one.log_offset for one in rewritten_records(log)] == [places[number] for number in (0, 1, 3, 4, 8)]
    found = records_with(log.scan(), "REAL_TOPIC")
    assert [one.log_offset for one in found] == [places[number] for number in (1, 3, 4, 8)]
    assert [one.log_offset for one in records_with(log.scan(), "KEYS")] == places
    assert {one.body for one in rewritten_records(log)} == {b"body"}


class Queue:
    """Units from queue offset 2 on; `short` ones come one by one."""

    min_offset = 2

    def __init__(self, units: list[bytes], *, most: int) -> None:
        self.units, self.most = units, most

    @property
    def max_offset(self) -> int:
        return self.min_offset + len(self.units)

    def read_range(self, queue_offset: int) -> bytes | None:
        at = queue_offset - self.min_offset
        return b"".join(self.units[at : at + self.most]) or None

    def unit(self, queue_offset: int) -> Any:
        return None


@pytest.mark.parametrize("most", [1, 2, 9])
@pytest.mark.parametrize("first", [0, 2, 3, 5])
def test_the_units_of_a_queue_lead_to_their_records(first: int, most: int) -> None:
    log, places = made_log()
    size = places[2] - places[1]
    # A record, bytes that are none, a unit that was not written, a place behind the log, a record.
    units = [(places[1], size), (places[1] + 1, size), (0, 0), (1 << 40, size), (places[1], size)]
    queue: Any = Queue([UNIT.pack(at, length, 0) for at, length in units], most=most)
    rows_of = [
        (2, places[1], places[1]), (3, places[1] + 1, None), (5, 1 << 40, None), (6, places[1], places[1]),
    ]  # fmt: skip
    found = [
        (number, unit.log_offset, one and one.log_offset) for number, unit, one in queue_records(log, queue, first)
    ]
    assert found == [row for row in rows_of if row[0] >= first]


def test_a_unit_that_cannot_be_read_is_passed_over_alone() -> None:
    asked: list[int] = []
    queue: Any = SimpleNamespace(min_offset=0, max_offset=3, read_range=lambda at: None, unit=asked.append)
    assert list(queue_records(made_log()[0], queue)) == []
    assert asked == [0, 1, 2]
    log: Any = SimpleNamespace(read=lambda log_offset, size: None)
    unit: Any = SimpleNamespace(log_offset=0, size=9)
    assert read_unit(log, unit) is None


def test_each_record_with_the_crc_of_other_bytes_is_named_and_whether_it_is_a_copy() -> None:
    log = SmallLog()
    crc, copy = {"__CRC32#": "0000000001\x02"}, {"REAL_TOPIC": "T"}
    places = [log.put(**more) for more in ({}, crc, {}, {**copy, **crc}, crc, copy)]
    run = next(scan_segment(SmallSegment(memoryview(log.data), file_start=7)))
    assert isinstance(run, Run)
    assert list(wrong_property_crcs(run)) == [(places[1] + 7, False), (places[3] + 7, True), (places[4] + 7, False)]


def test_a_log_of_a_groups_entries_is_not_written_to(tmp_path: Path) -> None:
    reader_of(tmp_path, plain, start=0)
    refuse(StoreLayout(tmp_path), Filesystem())
    reader_of(tmp_path, entry)
    with pytest.raises(UnsupportedFormat) as error:
        refuse(StoreLayout(tmp_path), Filesystem())
    assert (error.value.file, error.value.offset) == (tmp_path / "commitlog" / f"{START:020d}", 0)
    refuse(StoreLayout(tmp_path), BadSectors({f"{START:020d}": {0}}))
    for code, is_raised in ((errno.EIO, False), (errno.EACCES, True)):
        fs = FaultyFilesystem(errno_code=code, when=lambda name, _: name == "read")
        if is_raised:
            with pytest.raises(StoreIOError):
                refuse(StoreLayout(tmp_path), fs)
        else:
            refuse(StoreLayout(tmp_path), fs)
