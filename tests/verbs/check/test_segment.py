"""Which derived files a segment is compared with, and how the queue offsets in it count on."""

from __future__ import annotations

import numpy as np
import pytest

from store.files.store_reader import StoredFile
from store.structures.consumequeue.expect import Units
from store.structures.consumequeue.survey import QueueFile
from store.structures.index.survey import IndexFile
from store.verbs.check.segment import Surveys, _QueueStates


def queue_file(path: str, low: int, high: int) -> QueueFile:
    return QueueFile("T", 0, path, 0, 400, 0, 0, low, high, rises=True)


def index_file(path: str, low: int, high: int) -> IndexFile:
    return IndexFile(path, 2240, 50, 2, low, high, rises=True, begin_timestamp_ms=1, end_timestamp_ms=1, is_full=False)


@pytest.mark.parametrize(
    ("low", "high", "is_met"),
    [
        (0, 99, False),
        (0, 100, True),
        (100, 100, True),
        (150, 160, True),
        (0, 500, True),
        (199, 199, True),
        (199, 500, True),
        (200, 500, False),
        (-1, -1, False),
    ],
)
def test_a_segment_is_compared_with_the_files_that_name_offsets_in_it(low: int, high: int, is_met: bool) -> None:
    queues = [queue_file("before", 0, 50), queue_file("one", low, high), queue_file("other", 120, 180)]
    indexes = [index_file("behind", 300, 400), index_file("one", low, high), index_file("other", 120, 180)]
    found = Surveys([*queues, *indexes]).of_segment(StoredFile("", 100, 100, 0))
    assert [file.path for file in found.queues] == ["one"] * is_met + ["other"]
    assert [file.path for file in found.indexes] == ["one"] * is_met + ["other"]
    assert found.has_index


def test_a_store_has_an_index_though_none_of_its_files_names_the_segment() -> None:
    segment = StoredFile("", 100, 100, 0)
    assert Surveys([index_file("behind", 300, 400)]).of_segment(segment).has_index
    assert not Surveys([queue_file("one", 100, 150)]).of_segment(segment).has_index


def units(*rows: tuple[int, int, int], queues: list[tuple[str, int]]) -> Units:
    """Units by queue number, queue offset and log offset."""
    number, queue_offset, log_offset = np.array(rows, np.int64).T
    return Units(queues, number, queue_offset, log_offset, np.full(len(rows), 10), np.zeros(len(rows), np.int64))


def test_queue_offsets_count_on_in_every_queue_from_run_to_run() -> None:
    states, queues = _QueueStates(), [("T", 0), ("U", 3)]
    broken = []
    for run in (
        units((0, 5, 100), (1, 9, 110), (0, 6, 120), queues=queues[:2]),
        units((1, 10, 130), (0, 8, 140), (1, 10, 150), (0, 9, 160), queues=queues),
        units((2, 0, 170), (0, 10, 180), (2, 1, 190), (1, 11, 200), queues=[*queues, ("%LMQ%a", 0)]),
    ):
        found = states.broken(states.numbers_of(run), run)
        broken += [(states.names[number], before, rows.tolist()) for number, before, rows in found]
    assert broken == [(("T", 0), 6, [1, 3]), (("U", 3), 9, [0, 2])]
    assert states.ends() == {("T", 0): (5, 100, 10), ("U", 3): (9, 110, 11), ("%LMQ%a", 0): (0, 170, 1)}
    assert states.is_lmq.tolist() == [False, False, True]
