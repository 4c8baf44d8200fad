"""The first message that a start dispatches of a topic whose attributes it refuses."""

from __future__ import annotations

import pytest

from store.formats.run import Run
from store.structures.commitlog.scan import scan_segment
from store.verbs.recover.refused_topics import _first_of
from tests.support.logs import record
from tests.support.small_log import SmallSegment

TOPICS = [(b"A", 0), (b"T", 4), (b"T", 0), (b"U", 0)]
"""Topic and flags of each record; the first of T is a prepared message, which is dispatched too."""
RECORDS = [
    record(topic, position=number * len(record(b"A")), sys_flag=flag) for number, (topic, flag) in enumerate(TOPICS)
]
SIZE = len(RECORDS[0])


@pytest.mark.parametrize(
    ("topics", "behind", "stop", "found"),
    [
        ({"T", "U"}, -1, 4 * SIZE, ("T", SIZE)),
        ({"U"}, -1, 4 * SIZE, ("U", 3 * SIZE)),
        ({"U"}, -1, 4 * SIZE - 1, None),
        ({"V"}, -1, 4 * SIZE, None),
        (set(), -1, 4 * SIZE, None),
        ({"A"}, -1, SIZE, ("A", 0)),
        ({"A"}, -1, SIZE - 1, None),
        ({"A"}, 0, 4 * SIZE, None),
        ({"T"}, SIZE - 1, 4 * SIZE, ("T", SIZE)),
        ({"T"}, SIZE, 4 * SIZE, ("T", 2 * SIZE)),
        ({"T"}, 2 * SIZE, 4 * SIZE, None),
    ],
)
def test_it_is_the_first_record_behind_the_queues_that_ends_before_the_stop(
    topics: set[str], behind: int, stop: int, found: tuple[str, int] | None
) -> None:
    run = next(scan_segment(SmallSegment(memoryview(b"".join(RECORDS)))))
    assert isinstance(run, Run)
    assert _first_of(run, dict.fromkeys(topics, ""), behind, stop) == found
