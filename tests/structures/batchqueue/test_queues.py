"""Batch queues in files: their extents, their newest record, and the unit of a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from store.broker_line import LINE_5_3
from store.files.filesystem import Filesystem
from store.files.mapped_file import MappedFile
from store.files.mapped_file_queue import MappedFileQueue
from store.files.store_reader import StoreReader
from store.structures.batchqueue import queue as queue_room
from store.structures.batchqueue.queue import BatchConsumeQueue
from store.structures.batchqueue.queues import (
    Extent,
    expired_size,
    extent_of,
    extents,
    files_of,
    find_unit,
    holds,
    newest_record,
)
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE

SIZE = 92
"""Two units."""


def units(*rows: tuple[int, int, int]) -> bytes:
    """Units of (log offset, queue offset, message count), of records of 50 bytes."""
    found = [(log_offset, 50, 0, 1, at, count, -1, 0) for log_offset, at, count in rows]
    return np.array(found, BATCH_UNIT_DTYPE).tobytes().ljust(SIZE, b"\0")


@pytest.fixture
def reader(tmp_path: Path) -> StoreReader:
    files = {
        "T/0/00000000000000000000": units((100, 0, 5), (200, 5, 2)),
        "T/0/00000000000000000092": units((300, 7, 1)),
        "T/1/00000000000000000000": units(),
        "U/3/00000000000000000092": units((400, 9, 3), (150, 12, 1)),
        "T/0/junk": b"x",
        "T/x/00000000000000000000": units((900, 0, 1)),
        "T/0/00000000000000000184/00000000000000000000": units((900, 0, 1)),
    }
    for name, data in files.items():
        path = tmp_path / "batchconsumequeue" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "batchconsumequeue/T/2").mkdir()
    return StoreReader(str(tmp_path))


def test_a_queue_has_the_files_with_an_offset_as_name_in_order(reader: StoreReader) -> None:
    found = {queue: [one.number for one in files] for queue, files in files_of(reader).items()}
    assert found == {("T", 0): [0, 92], ("T", 1): [0], ("U", 3): [92]}
    assert [holds(reader, queue) for queue in (("T", 0), ("T", 1), ("T", 2), ("U", 0))] == [True, True, False, False]


@pytest.mark.parametrize(
    ("log_start", "first"), [(0, 0), (100, 0), (101, 5), (200, 5), (201, 7), (300, 7), (301, 8), (9999, 8)]
)
def test_a_queue_begins_at_its_first_record_in_the_log(log_start: int, first: int, reader: StoreReader) -> None:
    assert extent_of(reader, files_of(reader)["T", 0], log_start) == Extent(first, 8, 300, 350)


def test_every_queue_has_an_extent_and_the_newest_record_is_the_last_of_one(
    reader: StoreReader, tmp_path: Path
) -> None:
    assert sorted(extents(reader, 160, LINE_5_3)) == [
        ("T", 0, 5, 8, 300, 350, ""),
        ("T", 1, 0, 0, -1, -1, ""),
        ("U", 3, 9, 13, 150, 200, ""),
    ]
    assert newest_record(reader) == 300
    assert newest_record(StoreReader(str(tmp_path / "config"))) == -1


@pytest.mark.parametrize(
    ("log_offset", "found"),
    [(100, (0, 0)), (200, (0, 46)), (300, (92, 0)), (0, None), (350, None)],
)
def test_a_unit_is_found_by_its_records_log_offset(
    log_offset: int, found: tuple[int, int] | None, reader: StoreReader
) -> None:
    wanted = None if found is None else (f"batchconsumequeue/T/0/{found[0]:020d}", found[1], 50)
    assert find_unit(reader, ("T", 0), log_offset) == wanted


@pytest.mark.parametrize(("log_start", "size"), [(0, 0), (100, 0), (149, 0), (150, 46), (249, 46), (250, 92)])
def test_leading_units_of_expired_messages_may_go(log_start: int, size: int) -> None:
    assert expired_size(memoryview(units((100, 0, 5), (200, 5, 2))), log_start) == size
    assert expired_size(memoryview(units()), log_start) == 0


def queue_of(folder: Path, rows: list[tuple[int, int, int]]) -> BatchConsumeQueue:
    """A queue with these units."""
    queue = BatchConsumeQueue("T", 0, MappedFileQueue(folder, SIZE, Filesystem(), writable=True))
    queue.append_units(np.frombuffer(b"".join(units(row)[: SIZE // 2] for row in rows), BATCH_UNIT_DTYPE))
    return queue


ROWS = [(100, 4, 5), (200, 9, 2), (300, 20, 1)]
"""Log offset, queue offset and message count of three units in two files; offsets 11 to 19 are in none."""


@pytest.mark.parametrize(
    ("log_start", "first"), [(0, 4), (100, 4), (101, 9), (200, 9), (201, 11), (300, 11), (9999, 11)]
)
def test_a_queue_begins_behind_the_expired_units_of_its_first_file(log_start: int, first: int, tmp_path: Path) -> None:
    queue = queue_of(tmp_path, ROWS)
    assert queue.min_offset == 0
    queue.correct_min_offset(log_start)
    assert queue.min_offset == first


@pytest.mark.parametrize(
    ("queue_offset", "found"),
    [(3, None), (4, [4, 9]), (8, [4, 9]), (9, [9]), (10, [9]), (11, None), (19, None), (20, [20]), (21, None)],
)
def test_the_unit_of_an_offset_holds_it_and_is_followed_by_those_of_its_file(
    queue_offset: int, found: list[int] | None, tmp_path: Path
) -> None:
    rows = queue_of(tmp_path, ROWS).units_from(queue_offset)
    assert (None if rows is None else [one.queue_offset for one in rows]) == found


@pytest.mark.parametrize(
    ("queue_offset", "rolled"), [(-1, 4), (3, 4), (4, 20), (9, 20), (19, 20), (20, 21), (21, 21), (99, 21)]
)
def test_the_next_file_begins_with_its_first_unit_also_past_units_that_no_file_holds(
    queue_offset: int, rolled: int, tmp_path: Path
) -> None:
    assert queue_of(tmp_path, ROWS).roll_next_file(queue_offset) == rolled


def test_a_batch_queue_has_no_extension_and_its_entries_end_before_no_log_offset(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, ROWS)
    assert queue.max_physic_offset == 300
    queue.append_units(np.frombuffer(b"", BATCH_UNIT_DTYPE))
    assert queue.max_physic_offset == 300
    assert not queue.has_lost_extension(0)
    assert not queue.ends_before(9999)
    assert queue.read_range(4) is None
    file = queue.files.files[0]
    assert (queue.first_log_offset(file), queue.last_log_offset(file), queue.built_to) == (100, 200, 350)
    found = queue.units_between(file, 100, 200)
    assert [column.tolist() for column in found] == [[4], [100], [50]]
    assert queue.unit(9) == (200, 50, 0)


def test_room_is_reserved_for_the_units_of_each_file_before_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved: list[tuple[str, int]] = []
    monkeypatch.setattr(MappedFile, "reserve", lambda file, size: reserved.append((file.path.name, size)))
    queue = queue_of(tmp_path, ROWS[:1])
    rows = [(110, 9, 1), (120, 10, 1), (130, 11, 1), (140, 12, 1)]
    queue.append_units(np.frombuffer(b"".join(units(row)[: SIZE // 2] for row in rows), BATCH_UNIT_DTYPE))
    names = [f"{SIZE * number:020d}" for number in range(3)]
    assert reserved == [(names[0], 46), (names[0], 92), (names[1], 92), (names[2], 46)]
    assert queue.max_physic_offset == 140


@pytest.mark.parametrize(
    ("log_offset", "offsets", "newest"),
    [
        (350, [4, 9, 20], 300), (301, [4, 9, 20], 300), (300, [4, 9], 200), (250, [4, 9], 200), (200, [4], 100),
        (101, [4], 100), (100, [], 99), (0, [], -1),
    ],
)  # fmt: skip
def test_units_of_records_past_the_logs_end_are_truncated(
    log_offset: int, offsets: list[int], newest: int, tmp_path: Path
) -> None:
    queue = queue_of(tmp_path, ROWS)
    queue.truncate_dirty_logic_files(log_offset)
    rows = [one.queue_offset for at in (4, 20) for one in queue.units_from(at) or ()]
    assert (rows, queue.max_physic_offset) == (offsets, newest)


def test_a_file_that_is_written_to_without_a_unit_has_no_offset(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, ROWS[:2])
    queue.files.files[0].write_buffer[:] = bytes(SIZE)
    assert (queue.units_from(5), queue.unit(0), queue.max_offset) == (None, None, 0)


def test_a_queue_without_units_has_no_offset_but_0(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, [])
    queue.correct_min_offset(100)
    assert (queue.min_offset, queue.max_offset, queue.units_from(0)) == (0, 0, None)
    assert queue.offset_by_time(5, cast(Any, None), 0) == 0


@pytest.mark.parametrize(("emptied", "end", "built_to"), [(0, 10, 450), (1, 8, 350), (2, 0, -1)])
def test_a_queue_ends_with_the_last_unit_of_its_last_two_files(
    emptied: int, end: int, built_to: int, tmp_path: Path
) -> None:
    """As a broker does, which looks at no file before them."""
    queue = queue_of(tmp_path, [(100 * number, 2 * number, 2) for number in range(5)])
    assert [file.wrote for file in queue.files.files] == [SIZE, SIZE, SIZE // 2]
    for file in queue.files.files[3 - emptied :]:
        file.set_positions(0)
    assert (queue.max_offset, queue.built_to) == (end, built_to)


@pytest.mark.parametrize(
    ("file_count", "cut_at", "newest", "end"),
    [
        (1, 1, 0, 1),
        (2, 2, 100, 2),
        (2, 3, 200, 3),
        (4, 7, 600, 7),
        (5, 2, 900, 10),
        (5, 4, -1, 4),
        (5, 5, 400, 5),
    ],
)
def test_a_recovery_ends_at_the_first_gap_of_the_last_three_files(
    file_count: int, cut_at: int, newest: int, end: int, tmp_path: Path
) -> None:
    """`cut_at` is the first unit that is cleared, with those after it in its file."""
    queue = queue_of(tmp_path, [(100 * number, number, 1) for number in range(2 * file_count)])
    queue.max_physic_offset = -1
    file = queue.files.files[cut_at // 2]
    file.write_buffer[cut_at % 2 * BATCH_UNIT_DTYPE.itemsize :] = bytes(SIZE - cut_at % 2 * BATCH_UNIT_DTYPE.itemsize)
    assert (queue.recover(), queue.files.flushed_where) == (newest, end * BATCH_UNIT_DTYPE.itemsize)


@pytest.mark.parametrize(("count", "end"), [(-1, 0), (0, 9), (1, 10)])
def test_a_record_gets_a_unit_unless_its_count_is_negative(count: int, end: int, tmp_path: Path) -> None:
    queue = queue_of(tmp_path, [])
    run = np.frombuffer(units((100, 9, count))[: SIZE // 2], BATCH_UNIT_DTYPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("store.structures.batchqueue.queue.units_of_records", lambda *of_run: run)
        assert queue.append_records(cast(Any, None), cast(Any, None), cast(Any, None)) == []
    assert (queue.max_offset, queue.files.last is not None) == (end, count >= 0)


def test_units_past_the_end_are_cleared_once_the_disk_has_room_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = queue_of(tmp_path, ROWS[:2])
    file, reserved = queue.files.files[0], []
    monkeypatch.setattr(MappedFile, "reserve", lambda file, size: reserved.append(size))
    assert (queue.clear_cut_units(), reserved) == (False, [])
    file.set_positions(SIZE // 2)
    assert (queue.clear_cut_units(), reserved) == (True, [SIZE])
    assert bytes(file.write_buffer) == units(ROWS[0])
    assert (queue.clear_cut_units(), reserved) == (False, [SIZE])


@pytest.mark.parametrize(("emptied", "built_to"), [(0, 350), (1, 250), (2, -1)])
def test_a_queue_is_built_to_the_end_of_its_newest_record(emptied: int, built_to: int, tmp_path: Path) -> None:
    queue = queue_of(tmp_path, ROWS)
    for file in queue.files.files[2 - emptied :]:
        file.set_positions(0)
    assert queue.built_to == built_to
    first = queue.files.files[0]
    assert queue.first_log_offset(first) == (-1 if emptied == 2 else 100)
    assert queue.last_log_offset(first) == 200


def test_a_batch_queue_has_no_extension_and_may_reach_anywhere(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, ROWS)
    assert [queue.has_lost_extension(at) for at in (0, 999)] == [False, False]
    assert [queue.ends_before(at) for at in (0, 999)] == [False, False]


@pytest.mark.parametrize(
    ("newest", "rows", "kept"),
    [
        (-1, [(100, -1, 1), (200, 0, 1), (300, 1, 1)], [0, 1]),
        (100, [(100, 0, 1), (101, 1, 1)], [1]),
        (99, [(100, 0, 1), (101, 1, 1)], [0, 1]),
        (-1, [(100, 0, -1), (200, 1, 0)], [1]),
    ],
)
def test_records_get_units_once_and_with_a_queue_offset_alone(
    newest: int, rows: list[tuple[int, int, int]], kept: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = np.frombuffer(b"".join(units(row)[: SIZE // 2] for row in rows), BATCH_UNIT_DTYPE)
    monkeypatch.setattr(queue_room, "units_of_records", lambda run, rows, codes: made)
    queue = queue_of(tmp_path, [])
    queue.max_physic_offset = newest
    appended: list[int] = []
    monkeypatch.setattr(queue, "append_units", lambda units: appended.extend(units["queue_offset"].tolist()))
    assert queue.append_records(cast(Any, None), cast(Any, None), cast(Any, None)) == []
    assert appended == kept
