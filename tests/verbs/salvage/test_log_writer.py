"""The log of a salvaged store: what fills its gaps, how segments end, and what is made durable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np
import pytest

from store import Message
from store.errors import BadRequest
from store.files.filesystem import Descriptor, Filesystem
from store.formats.message import BLANK_MAGIC, BLANK_SIZE, decode_record, encode_record
from store.verbs.salvage import log_writer
from store.verbs.salvage.log_writer import SMALLEST_FILLER, LogWriter, Moves, NoRoom
from tests.verbs.salvage.records import LENGTH, record

MIB = 1 << 20


class Noting(Filesystem):
    """Notes what is made durable."""

    def __init__(self) -> None:
        self.durable: list[str] = []

    def fdatasync(self, file: Descriptor) -> None:
        self.durable.append(file.path.name)

    def fsync_folder(self, path: Path) -> None:
        self.durable.append(path.name)


def fillers(data: bytes, at: int, stop: int) -> list[int]:
    """The sizes of the records from one position to another."""
    sizes = []
    while at < stop:
        size = int.from_bytes(data[at : at + 4], "big")
        one = decode_record(data[at : at + size])
        assert (one.topic, one.log_offset, one.store_timestamp_ms, one.born_timestamp_ms) == ("F", at, 5, 0)
        sizes.append(size)
        at += size
    assert at == stop
    return sizes


RUNS = [([10, 20, 30], [110, 120, 130]), ([40, 60], [140, 160])]
"""Old and new log offsets."""


@pytest.mark.parametrize("run_count", [0, 1, 2])
@pytest.mark.parametrize("old", [0, 9, 10, 11, 20, 30, 31, 39, 40, 41, 60, 61])
def test_a_moved_record_is_found_by_its_old_place_alone(run_count: int, old: int) -> None:
    moves, places = Moves(), dict[int, int]()
    for before, after in RUNS[:run_count]:
        moves.runs.append((np.array(before), np.array(after)))
        places |= zip(before, after, strict=True)
    assert moves.find(old) == places.get(old, -1)


@pytest.mark.parametrize(
    ("first", "begins_with_half", "half", "moved", "lost"),
    [
        (500, False, -1, -1, 0),
        (500, False, 0, 0, 0),
        (0, False, 0, 0, 0),
        (0, True, 0, 900, 0),
        (500, False, 1, -1, 1),
        (500, False, 500, 900, 0),
        (500, False, 501, -1, 1),
    ],
)
def test_a_record_names_the_new_place_of_its_half_where_it_names_one(
    first: int, begins_with_half: bool, half: int, moved: int, lost: int
) -> None:
    moves = Moves()
    moves.begins_with_half = begins_with_half
    moves.runs.append((np.array([first]), np.array([900])))
    data = bytearray(encode_record(
        Message("T", b"x", prepared_transaction_offset=half), topic=b"T", sys_flag=8, queue_offset=0, log_offset=0,
        store_timestamp_ms=1,
    ))  # fmt: skip
    moves.correct(memoryview(data))
    assert (decode_record(bytes(data)).prepared_transaction_offset, moves.lost_half_count) == (moved, lost)


@pytest.mark.parametrize(
    ("gap", "sizes"),
    [
        (0, []),
        (SMALLEST_FILLER, [SMALLEST_FILLER]),
        (2 * MIB, [2 * MIB]),
        (2 * MIB + 1, [MIB, MIB + 1]),
        (3 * MIB + 1, [MIB, MIB, MIB + 1]),
    ],
)
def test_a_gap_is_filled_by_records_that_a_broker_takes(gap: int, sizes: list[int], tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", 8 * MIB, Filesystem())
    writer.append(memoryview(record(0)), np.array([LENGTH]), moves=None)
    writer.skip_to(LENGTH + gap, 5)
    assert (writer.position, writer.filler_count) == (LENGTH + gap, len(sizes))
    data = (tmp_path / "log" / f"{0:020d}").read_bytes()
    assert fillers(data, LENGTH, LENGTH + gap) == sizes


def test_a_gap_smaller_than_a_record_is_refused(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", 4096, Filesystem())
    with pytest.raises(NoRoom, match=f"a gap of {SMALLEST_FILLER - 1} bytes is too small for a record") as refused:
        writer.skip_to(SMALLEST_FILLER - 1, 5)
    assert refused.value.offset == 0


@pytest.mark.parametrize("left", [0, 7, 8, 9])
def test_a_segment_ends_with_a_blank_that_has_room(left: int, tmp_path: Path) -> None:
    size = 2 * LENGTH + left
    writer = LogWriter(tmp_path / "log", size, Filesystem())
    data = b"".join(record(LENGTH * number) for number in range(4))
    moves = Moves()
    writer.append(memoryview(data), np.full(4, LENGTH), moves=moves)
    per_segment = 2 if left >= BLANK_SIZE else 1
    places = [number // per_segment * size + number % per_segment * LENGTH for number in range(4)]
    assert [moves.find(LENGTH * number) for number in range(4)] == places
    assert [moves.find(LENGTH * number + 1) for number in (-1, 0, 3)] == [-1, -1, -1]
    writer.close()
    first = (tmp_path / "log" / f"{0:020d}").read_bytes()
    end = per_segment * LENGTH
    blank = (size - end).to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big", signed=BLANK_MAGIC < 0)
    assert first[end : end + BLANK_SIZE] == blank
    assert [decode_record(first[:LENGTH]).log_offset, writer.position] == [0, places[-1] + LENGTH]


@pytest.mark.parametrize(("size", "fits"), [(LENGTH + BLANK_SIZE, True), (LENGTH + BLANK_SIZE - 1, False)])
def test_a_record_that_no_segment_can_take_is_refused(size: int, fits: bool, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", size, Filesystem())
    if fits:
        writer.append(memoryview(record(0)), np.array([LENGTH]), moves=None)
        assert writer.position == LENGTH
    else:
        with pytest.raises(BadRequest, match=f"a record of {LENGTH} bytes does not fit into a segment of {size} bytes"):
            writer.append(memoryview(record(0)), np.array([LENGTH]), moves=None)


def test_each_segment_is_durable_before_the_next_and_the_folder_at_last(tmp_path: Path) -> None:
    fs = Noting()
    writer = LogWriter(tmp_path / "log", LENGTH + BLANK_SIZE, fs)
    first, second = (f"{number * (LENGTH + BLANK_SIZE):020d}" for number in range(2))
    fs.durable.clear()
    writer.append(memoryview(record(0) + record(LENGTH)), np.full(2, LENGTH), moves=None)
    assert fs.durable == [first]
    writer.close()
    assert fs.durable == [first, second, "log"]


def test_a_log_that_ends_with_a_segment_is_closed_without_another(tmp_path: Path) -> None:
    fs = Noting()
    writer = LogWriter(tmp_path / "log", 4096, fs)
    writer.skip_to(4096, 5)
    fs.durable.clear()
    writer.close()
    assert (fs.durable, [one.name for one in (tmp_path / "log").iterdir()]) == (["log"], [f"{0:020d}"])


class Renaming:
    """A room whose records name another one, by a text of any length."""

    MARK = b"mark"

    @staticmethod
    def moved_end(record: bytes, find: Callable[[int], int]) -> bytes:
        """The mark and the digits behind it become the new log offset; the size stays that of the bytes."""
        start = record.index(Renaming.MARK)
        text = record[:start] + b"%d" % find(int(record[start + len(Renaming.MARK) : start + 5 + len(Renaming.MARK)]))
        return text + record[start + 5 + len(Renaming.MARK) :]


@pytest.mark.parametrize(
    ("records", "parts"),
    [
        ([b"a", b"bb"], [(b"abb", [1, 2])]),
        ([b"mark00500"], [(b"", []), (b"900", [3])]),
        ([b"mark00500", b"cc"], [(b"", []), (b"900", [3]), (b"cc", [2])]),
        ([b"a", b"-mark00501-", b"cc"], [(b"a", [1]), (b"--1-", [4]), (b"cc", [2])]),
        ([b"mark00500", b"mark00500"], [(b"", []), (b"900", [3]), (b"", []), (b"900", [3])]),
    ],
)
def test_records_that_name_others_are_parts_of_their_own(
    records: list[bytes], parts: list[tuple[bytes, list[int]]]
) -> None:
    moves = Moves()
    moves.runs.append((np.array([500]), np.array([900])))
    moves.rooms = [cast("ModuleType", Renaming)]
    found = moves.rewritten(memoryview(b"".join(records)), np.array([len(one) for one in records]))
    assert [(bytes(data), sizes.tolist()) for data, sizes in found] == parts


HALF, OPEN = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"


# Blocks of records: the old log offset and the topic of each.
@pytest.mark.parametrize(
    ("blocks", "begins_with_half"),
    [
        ([[(0, HALF)]], True),
        ([[(0, OPEN)]], True),
        ([[(0, "T"), (200, HALF)]], False),
        ([[(1, HALF)]], False),
        ([[(0, HALF)], [(200, "T")]], True),
        ([[(0, "T")], [(200, HALF)]], False),
        ([[(0, HALF), (200, "T")]], True),
    ],
)
def test_a_log_begins_with_a_half_if_its_record_at_0_is_one(
    blocks: list[list[tuple[int, str]]], begins_with_half: bool
) -> None:
    moves = Moves()
    for block in blocks:
        records = [
            encode_record(
                Message(topic, b"x"), topic=topic.encode(), sys_flag=0, queue_offset=0, log_offset=old,
                store_timestamp_ms=1,
            )
            for old, topic in block
        ]  # fmt: skip
        starts = np.cumsum([0, *(len(one) for one in records[:-1])])
        log_writer._move(bytearray(b"".join(records)), starts, 4096, moves)
    assert moves.begins_with_half == begins_with_half
    assert [run[0].tolist() for run in moves.runs] == [[old for old, _ in block] for block in blocks]
