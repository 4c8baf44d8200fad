"""Runs of records and arrays over derived files: what a part of them holds."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

import numpy as np
import pytest

from store.formats.columns import Column, DamageReason, ScanOutcome
from store.formats.derived import entries_of, expired_count, is_pre_blank, units_of
from store.formats.index_page import IndexEntry
from store.formats.queue_unit import PRE_BLANK, QueueUnit
from store.formats.run import Run

ARRAY = np.zeros((len(Column), 5), np.int64)
ARRAY[Column.POSITION, :3], ARRAY[Column.SIZE, :3], ARRAY[Column.LOG_OFFSET, :3] = (
    (40, 50, 80),
    (10, 30, 20),
    (140, 150, 180),
)
RUN = Run(100, Path("log"), memoryview(b""), ARRAY, 3)


def test_a_run_begins_and_ends_with_its_records() -> None:
    assert (RUN.start, RUN.end, RUN.log_offsets.tolist(), RUN.misplaced_count) == (140, 200, [140, 150, 180], 0)
    part = RUN.part(1, 3)
    assert (part.start, part.end, part.count, part.log_offsets.tolist()) == (150, 200, 2, [150, 180])


@pytest.mark.parametrize(("log_offset", "count"), [(149, 0), (150, 1), (151, 1), (199, 2), (200, 3), (999, 3)])
def test_a_record_counts_up_to_the_offset_where_it_ends(log_offset: int, count: int) -> None:
    assert RUN.up_to(log_offset).log_offsets.tolist() == [140, 150, 180][:count]


@pytest.mark.parametrize(("count", "found"), [(-1, 0), (0, 0), (2, 2), (3, 3), (4, 3)])
def test_entries_are_those_that_the_file_has_room_for(count: int, found: int) -> None:
    entries = [IndexEntry(number, number, number, number) for number in range(3)]
    data = bytes(48) + b"".join(entry.encode() for entry in entries) + bytes(19)
    assert entries_of(data, 2, count)["log_offset"].tolist() == [0, 1, 2][:found]


def test_units_are_whole_and_a_pre_blank_one_has_all_its_fields() -> None:
    units = [PRE_BLANK, QueueUnit(1, PRE_BLANK.size, 0), QueueUnit(0, 1, 0), QueueUnit(0, PRE_BLANK.size, 1)]
    data = b"".join(unit.encode() for unit in units) + bytes(19)
    assert units_of(data)["log_offset"].tolist() == [0, 1, 0, 0]
    assert is_pre_blank(units_of(data)).tolist() == [True, False, False, False]


COLUMNS = """POSITION SIZE BODY_POSITION BODY_SIZE TOPIC_POSITION TOPIC_SIZE PROPERTIES_POSITION PROPERTIES_SIZE
    QUEUE_ID QUEUE_OFFSET LOG_OFFSET SYS_FLAG STORE_TIMESTAMP_MS BODY_CRC"""
OUTCOMES = "FULL LIMIT BLANK END DAMAGE"
REASONS = """NONE BAD_MAGIC BAD_SIZE SIZE_BEYOND_SEGMENT BODY_BEYOND NEGATIVE_TOPIC TOPIC_BEYOND PROPERTIES_BEYOND
    LENGTH_MISMATCH BAD_DELAY_LEVEL BAD_CRC BAD_SELF_OFFSET BAD_PROPERTIES_CRC UNREADABLE TORN_PROPERTIES V2_RECORD
    ZEROS"""


@pytest.mark.parametrize(("kind", "names"), [(Column, COLUMNS), (ScanOutcome, OUTCOMES), (DamageReason, REASONS)])
def test_a_scans_numbers_are_counted_from_0(kind: type[IntEnum], names: str) -> None:
    assert {one.name: one.value for one in kind} == {name: number for number, name in enumerate(names.split())}


# Log offset and size of leading units, which of them are fillers, and how many are expired at log offset 100.
EXPIRED: list[tuple[list[tuple[int, int]], list[int], int]] = [
    ([], [], 0),
    ([(0, 50), (50, 50), (100, 50)], [], 2),
    ([(0, 50), (50, 51)], [], 1),
    ([(0, 1)], [], 1),
    ([(0, 0), (0, 50)], [], 0),
    ([(-1, 5), (0, 50)], [], 0),
    ([(5, -1), (0, 50)], [], 0),
    ([(0, 50), (100, 50), (50, 50)], [], 1),
    ([(0, 50), (0, 50), (100, 50)], [0], 2),
    ([(0, 50), (100, 50)], [0], 0),
    ([(0, 50), (0, 50)], [0, 1], 0),
    ([(0, 50), (0, 50)], [1], 2),
    ([((1 << 31) - 1, (1 << 31) - 1)], [], 0),
]


@pytest.mark.parametrize(("units", "fillers", "count"), EXPIRED)
def test_units_before_the_logs_start_are_expired_and_so_are_fillers_before_them(
    units: list[tuple[int, int]], fillers: list[int], count: int
) -> None:
    data = units_of(b"".join(QueueUnit(log_offset, size, 0).encode() for log_offset, size in units))
    filler = np.array([number in fillers for number in range(len(units))], bool)
    assert expired_count(data, filler, 100) == count
