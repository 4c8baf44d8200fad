"""What only shows between segments: times, ends, queue offsets, and keys without an index."""

from __future__ import annotations

from typing import Any

import pytest

from store.files.store_reader import StoredFile, StoreReader
from store.structures.consumequeue.compare import QueuedRecord
from store.structures.findings import (
    LOST_INDEX,
    STALE_TAIL,
    TIME_BACKWARDS,
    Finding,
)
from store.verbs.check.seams import SegmentSummary, lost_index_findings, seam_findings

NONE: Any = StoreReader("/store")


def seam(number: int, times: tuple[int, int] = (0, 0), count: int = 2, **fields: Any) -> SegmentSummary:
    """Summarise the segment from 100 * number on, which has records from 10 after its start on."""
    start = 100 * number
    return SegmentSummary(
        str(number), start, first=start + 10, end=start + 90, record_count=count, first_ms=times[0], last_ms=times[1],
        **{"outcome": "blank", **fields},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seams", "found"),
    [
        ([seam(0, (5, 9)), seam(1, (9, 9))], []),
        ([seam(0, (5, 9)), seam(1, (7, 9))], [(TIME_BACKWARDS, 1, 110, 1, "0.002 s before the record in front of it")]),
        (
            [seam(0, (5, 5009)), seam(1, (2509, 6000))],
            [(TIME_BACKWARDS, 1, 110, 1, "2.500 s before the record in front of it")],
        ),
        ([seam(0, (5, 9)), seam(2, (8, 9))], []),
        ([seam(0, (5, 9), count=0), seam(1, (8, 9))], []),
        ([seam(0, (5, 9)), seam(1, (8, 9), count=0)], []),
        ([seam(0, outcome="end"), seam(1)], [(STALE_TAIL, 1, 110, 2, "2 records are past the end at 90")]),
        ([seam(0, outcome="end"), seam(1, count=1)], [(STALE_TAIL, 1, 110, 1, "1 record is past the end at 90")]),
        ([seam(0, outcome="damage"), seam(1)], []),
    ],
)
def test_times_and_ends_are_compared_between_neighbours_with_records(
    seams: list[SegmentSummary], found: list[tuple[Any, ...]]
) -> None:
    segments = [StoredFile("", 100 * number, 100, 0) for number in range(4)]
    assert list(seam_findings(NONE, segments, seams)) == [
        Finding(kind, f"/store/{number}", offset, count=count, detail=detail)
        for kind, number, offset, count, detail in found
    ]


@pytest.mark.parametrize(
    ("first", "second", "third", "gaps"),
    [
        ((0, 4), (5, 9), (10, 12), []),
        ((0, 4), (6, 9), (10, 12), [1]),
        ((0, 4), (4, 9), (10, 12), [1]),
        ((0, 4), None, (5, 9), []),
        ((0, 4), None, (6, 9), [2]),
        ((0, 4), (5, 9), (9, 12), [2]),
    ],
)
def test_queue_offsets_go_on_from_segment_to_segment(
    first: tuple[int, int], second: tuple[int, int] | None, third: tuple[int, int], gaps: list[int]
) -> None:
    segments = [StoredFile("", 100 * number, 100, 0) for number in range(3)]
    seams = [
        seam(number, queues={("T", 0): (ends[0], 100 * number + 10, QueuedRecord(ends[1], ends[1], 0))} if ends else {})
        for number, ends in enumerate((first, second, third))
    ]
    found = list(seam_findings(NONE, segments, seams))
    assert [(one.file, one.offset, one.topic, one.queue_id) for one in found] == [
        (f"/store/{number}", 100 * number + 10, "T", 0) for number in gaps
    ]
    assert list(seam_findings(NONE, segments, [seams[0], seams[2]])) == []


@pytest.mark.parametrize(("first", "is_found"), [(4, True), (5, False), (6, True), (7, True), (8, False), (9, True)])
def test_the_last_record_of_a_segment_may_take_several_queue_offsets(first: int, is_found: bool) -> None:
    segments = [StoredFile("", 100 * number, 100, 0) for number in range(2)]
    ends = (0, 10, QueuedRecord(4, 7, 0)), (first, 110, QueuedRecord(12, 12, 0))
    found = seam_findings(NONE, segments, [seam(number, queues={("T", 0): one}) for number, one in enumerate(ends)])
    assert [one.offset for one in found] == [110] * is_found


def test_the_keys_of_a_log_without_index_files_are_counted_from_the_first() -> None:
    seams = [seam(0), seam(1, first_key=130, key_count=1), seam(2, first_key=210, key_count=3)]
    detail = "no file for 4 keys, the first at log offset 130"
    assert list(lost_index_findings(NONE, seams)) == [Finding(LOST_INDEX, "/store/index", 0, count=4, detail=detail)]
    assert list(lost_index_findings(NONE, seams[:1])) == []
