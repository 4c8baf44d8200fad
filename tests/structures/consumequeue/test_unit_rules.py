"""Bounds of units: which of a batch queue are written, and how queue offsets must count."""

from __future__ import annotations

import numpy as np
import pytest

from store.formats.run import Run
from store.structures.commitlog.scan import scan_segment
from store.structures.consumequeue.batch_units import (
    BATCH_UNIT_DTYPE,
    inner_batches,
    is_written,
    units_of_records,
    written_count,
)
from store.structures.consumequeue.compare import QueuedRecord, continuity_findings
from store.structures.findings import MISSING_RECORD, QUEUE_DUPLICATE, QUEUE_LEAP
from tests.support.small_log import START_MS, SmallLog, SmallSegment

WRITTEN = {"log_offset": 0, "size": 1, "queue_offset": 0, "message_count": 1}


@pytest.mark.parametrize("field", [None, *WRITTEN])
def test_a_batch_unit_is_written_with_all_four_of_its_numbers(field: str | None) -> None:
    units = np.zeros(3, BATCH_UNIT_DTYPE)
    for name, least in WRITTEN.items():
        units[name] = least
        units[name][1] -= name == field
    assert is_written(units).tolist() == [True, field is None, True]
    assert written_count(units) == (3 if field is None else 1)
    units["size"][2] = 0
    assert written_count(units) == (2 if field is None else 1)


def test_a_record_of_a_batch_queue_is_one_message_at_its_own_place() -> None:
    log = SmallLog()
    log.put_many(3)
    run = next(scan_segment(SmallSegment(memoryview(log.data), file_start=4096)))
    assert isinstance(run, Run)
    size = log.units[0].size
    assert [unit.tolist() for unit in units_of_records(run, np.array([0, 2]), np.array([7, 8, 9]))] == [
        (4096, size, 7, START_MS, 0, 1, -1, 0), (4096 + 2 * size, size, 9, START_MS + 2000, 2, 1, -1, 0),
    ]  # fmt: skip


def test_a_record_of_several_messages_has_their_number_in_its_unit() -> None:
    log = SmallLog()
    for base, count in ((5, 3), (None, None), (8, 2)):
        log.put(**({"INNER_BASE": str(base), "INNER_NUM": str(count)} if base is not None else {}), queue_offset=base)
    run = next(scan_segment(SmallSegment(memoryview(log.data))))
    assert isinstance(run, Run)
    assert list(inner_batches(run)) == [(0, 5, 3), (2, 8, 2)]
    units = units_of_records(run, np.array([1, 2, 0]), np.zeros(3, np.int64))
    assert units[["queue_offset", "message_count"]].tolist() == [(0, 1), (8, 2), (5, 3)]


@pytest.mark.parametrize(
    ("offsets", "found"),
    [
        ([6, 7, 8], []),
        ([7], [(MISSING_RECORD, 100, "queue offset 7 follows 5")]),
        ([6, 8, 10], [(MISSING_RECORD, 200, "queue offset 8 follows 6")]),
        ([5], [(QUEUE_DUPLICATE, 100, "queue offset 5 follows 5")]),
        ([6, 6], [(QUEUE_DUPLICATE, 200, "queue offset 6 follows 6")]),
        (
            [6, 8, 7],
            [(QUEUE_DUPLICATE, 300, "queue offset 7 follows 8"), (MISSING_RECORD, 200, "queue offset 8 follows 6")],
        ),
        # 100 bytes hold one record of the smallest.
        ([6, 9, 10], [(QUEUE_LEAP, 200, "queue offset 9 follows 6")]),
    ],
)
def test_queue_offsets_count_up_by_one(offsets: list[int], found: list[tuple[str, int, str]]) -> None:
    places = np.arange(100, 100 + 100 * len(offsets), 100)
    columns = np.array(offsets, np.int64), np.array(offsets, np.int64), places
    findings = continuity_findings("log", ("T", 0), QueuedRecord(5, 5, 0), *columns)
    assert [(one.kind, one.offset, one.detail) for one in findings] == found


def test_a_light_queue_leaves_out_the_offset_of_a_message_that_is_not_dispatched() -> None:
    column = np.array([7])
    findings = continuity_findings("log", ("%LMQ%a", 0), QueuedRecord(5, 5, 0), column, column, np.array([100]))
    assert [one.kind for one in findings] == [QUEUE_LEAP]


@pytest.mark.parametrize(
    ("offsets", "found"),
    [
        # The record before them has the offsets 3 to 5, and the second of them the next two.
        ([6, 7, 9], []),
        # As a salvage for a 4.9 broker fills the queue: a place for each message but the first.
        ([4, 5, 6], []),
        ([7, 8, 10], [(MISSING_RECORD, 100, "queue offset 7 follows 3")]),
        ([6, 7, 10], [(MISSING_RECORD, 300, "queue offset 10 follows 7")]),
        ([6, 7, 7], [(QUEUE_DUPLICATE, 300, "queue offset 7 follows 7")]),
    ],
)
def test_queue_offsets_count_up_by_the_messages_of_a_record(
    offsets: list[int], found: list[tuple[str, int, str]]
) -> None:
    first, second, third = offsets
    columns = np.array(offsets), np.array([first, second + 1, third]), np.array([100, 200, 300])
    findings = continuity_findings("log", ("T", 0), QueuedRecord(3, 5, 0), *columns)
    assert [(one.kind, one.offset, one.detail) for one in findings] == found
