"""Damaged topics that decode to one name: their records are one queue's, in the log's order by the broker's rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.formats.run import Run
from store.structures.commitlog.scan import scan_segment
from tests.support.logs import log_of
from tests.support.small_log import SmallSegment, open_queues, tree

TOPICS = (b"T\xfe", b"T\xff")


def built(data: bytes, folder: Path, capacity: int) -> tuple[dict[str, bytes], list[str]]:
    """The queues' files of a log that is dispatched so many records at a time, and the findings."""
    queues = open_queues(folder)
    for step in scan_segment(SmallSegment(memoryview(data)), capacity=capacity):
        if isinstance(step, Run):
            queues.dispatch(step)
    queues.close()
    return tree(folder), sorted(queues.describe_findings())


@pytest.mark.parametrize("offsets", [(0, 1, 2), (0, 0, 0)])
def test_the_second_name_goes_on_where_the_first_one_ended(offsets: tuple[int, ...], tmp_path: Path) -> None:
    first = [{"topic": TOPICS[0], "queue_offset": offset} for offset in range(3)]
    second = [{"topic": TOPICS[1], "queue_offset": offset} for offset in offsets]
    data = log_of([*first, *second])
    assert built(data, tmp_path / "at once", 10) == built(data, tmp_path / "singly", 1)
