"""The report of lost messages: whole rows of two topics, queues, groups and states, and its sums."""

from __future__ import annotations

import numpy as np
import pytest

from store.verbs.recover.lost import LossReport, LossTally, LostCounts, LostForGroup, LostOfGroup, LostQueue


def tally() -> LossTally:
    made = LossTally()
    made.count(("B", 0), 2, 200, "intact")
    made.count(("A", 1), 1, 10, "damaged")
    made.count(("A", 0), 3, 30, "unreadable")
    made.count(("A", 0), 4, 40, "intact")
    made.note_offsets(("A", 0), np.array([5, 6, 7]))
    made.note_offsets(("A", 0), np.array([8]))
    made.note_offsets(("A", 1), np.array([1]))
    made.note_offsets(("B", 0), np.array([0, 1]))
    return made


QUEUES = [
    LostQueue("A", 0, message_count=7, size_bytes=70, intact_count=4, unreadable_count=3),
    LostQueue("A", 1, message_count=1, size_bytes=10, damaged_count=1),
    LostQueue("B", 0, message_count=2, size_bytes=200, intact_count=2),
]
CONSUMED = {("B", "g1"): {0: 1}, ("A", "g2"): {0: 7}, ("A", "g1"): {0: 9, 1: 1}, ("C", "g1"): {}}
UNCONSUMED = [
    LostForGroup("g1", "A", 1, 1),
    LostForGroup("g1", "B", 0, 1),
    LostForGroup("g2", "A", 0, 2),
    LostForGroup("g2", "A", 1, 1),
]


def test_messages_are_added_up_by_queue_and_state() -> None:
    assert tally().rows() == QUEUES


def test_a_group_loses_what_is_at_its_offset_or_behind_it() -> None:
    assert tally().unconsumed(CONSUMED) == UNCONSUMED


@pytest.mark.parametrize(("offset", "count"), [(4, 4), (5, 4), (6, 3), (8, 1), (9, 0)])
def test_an_offset_counts_to_the_message(offset: int, count: int) -> None:
    rows = tally().unconsumed({("A", "g"): {0: offset, 1: 2}})
    assert rows == ([LostForGroup("g", "A", 0, count)] if count else [])


def test_offsets_that_consumers_see_are_known() -> None:
    assert tally().has_offsets
    assert not LossTally().has_offsets


def test_a_report_has_a_row_for_each_queue_and_each_group() -> None:
    report = LossReport(QUEUES, UNCONSUMED, units_cut=9, index_keys=2, delayed=1)
    assert report.queue_rows() == [
        LostQueue("A", 0, 7, 70, 4, 0, 3, {"g2": 2}),
        LostQueue("B", 0, 2, 200, 2, 0, 0, {"g1": 1}),
        LostQueue("A", 1, 1, 10, 0, 1, 0, {"g1": 1, "g2": 1}),
    ]
    assert report.group_rows() == [LostOfGroup("g1", "A", 1), LostOfGroup("g1", "B", 1), LostOfGroup("g2", "A", 3)]
    assert list(report.by_topic().items()) == [("A", 8), ("B", 2)]
    assert list(report.by_group().items()) == [("g1", 2), ("g2", 3)]
    assert report.counts() == LostCounts(10, 280, 6, 1, 3, 9, 2, 1)


@pytest.mark.parametrize(
    ("report", "is_empty"),
    [
        (LossReport(), True),
        (LossReport(units_cut=5), True),
        (LossReport(QUEUES[2:]), False),
        (LossReport(index_keys=1), False),
        (LossReport(delayed=1), False),
    ],
)
def test_a_report_of_units_alone_is_empty(report: LossReport, is_empty: bool) -> None:
    assert report.is_empty == is_empty
