"""Findings on light queues without files become one."""

from __future__ import annotations

from store.structures.consumequeue.dispatch_faults import LIGHT_WITHOUT_FILES, gather_without_files
from store.structures.findings import MISSING_UNIT, QUEUE_GAP, Finding

PLAIN = Finding(QUEUE_GAP, "log", 9, "T", 0, 1, "a gap")
OF_LIGHT = [
    Finding(QUEUE_GAP, "log", 5, "%LMQ%a", 0, 1, "a gap"),
    Finding(MISSING_UNIT, "log", 7, "%LMQ%a", 0, 3, "no entry"),
    Finding(MISSING_UNIT, "next", 8, "%LMQ%a", 0, 4, "no entry"),
    Finding(MISSING_UNIT, "next", 6, "%LMQ%b", 0, 2, "no entry"),
]


def test_missing_entries_of_light_queues_are_one_finding_at_the_first_of_them() -> None:
    detail = "2 light queues: lost, or never written by a broker without enableMultiDispatch"
    one = Finding(LIGHT_WITHOUT_FILES, "log", 7, None, None, 9, detail)
    assert list(gather_without_files([OF_LIGHT[0], PLAIN, *OF_LIGHT[1:]])) == [PLAIN, one]


def test_light_queues_that_miss_no_entry_keep_their_findings() -> None:
    assert list(gather_without_files([OF_LIGHT[0], PLAIN])) == [PLAIN, OF_LIGHT[0]]
