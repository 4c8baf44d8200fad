"""Search by time in a queue: 4.9 takes the nearest message of a file, 5.3 the first that is not older."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from store.formats.queue_unit import UNIT_SIZE, QueueUnit
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.time_search import first_at_or_after, nearest_by_time

FIRST = 5
"""The queue offset of the file's first unit."""
TIMES = {1000: 10, 1100: 20, 1200: 30, 1300: 40}
"""Store times by log offset."""


@dataclass
class Queue:
    """A queue of one file with a unit for each of TIMES; the file is its own list of files."""

    min_offset: int = FIRST
    units: list[QueueUnit] = field(default_factory=lambda: [QueueUnit(place, 100, 0) for place in TIMES])
    file_start: int = FIRST * UNIT_SIZE

    @property
    def files(self) -> Queue:
        return self

    def find_by_time(self, time_ms: int) -> Queue:
        return self

    @property
    def readable_position(self) -> int:
        return len(self.units) * UNIT_SIZE

    def read(self, position: int, size: int) -> bytes:
        return b"".join(unit.encode() for unit in self.units)[position : position + size]

    @property
    def max_offset(self) -> int:
        return FIRST + len(self.units)

    def unit(self, queue_offset: int) -> QueueUnit | None:
        return self.units[queue_offset - FIRST]


def store_time(log_offset: int, size: int) -> int:
    assert size == 100
    return TIMES.get(log_offset, -1)


def nearest(time_ms: int, min_log_offset: int = 0, **queue: Any) -> int:
    return nearest_by_time(cast(ConsumeQueue, Queue(**queue)), time_ms, store_time, min_log_offset)


# Time asked for → queue offset; of two messages as near as one another the older counts.
NEAREST = [(5, 5), (10, 5), (14, 5), (15, 5), (16, 6), (20, 6), (25, 6), (26, 7), (30, 7), (35, 7), (36, 8), (40, 8)]


@pytest.mark.parametrize(("time_ms", "queue_offset"), [*NEAREST, (99, 8)])
def test_the_nearest_message_counts_and_of_two_the_older(time_ms: int, queue_offset: int) -> None:
    assert nearest(time_ms) == queue_offset


@pytest.mark.parametrize(("time_ms", "queue_offset"), [(5, 7), (30, 7), (35, 7), (36, 8), (99, 8)])
@pytest.mark.parametrize("begin", [{"min_offset": 7}, {"min_log_offset": 1200}, {"min_log_offset": 1101}])
def test_messages_before_the_minimum_are_passed_over(begin: dict[str, int], time_ms: int, queue_offset: int) -> None:
    assert nearest(time_ms, **begin) == queue_offset


def test_where_all_is_gone_from_the_log_the_file_begins_the_answer() -> None:
    assert nearest(99, min_log_offset=1301) == FIRST


@pytest.mark.parametrize("units", [[], [QueueUnit(9, 100, 0)]])
def test_without_a_message_or_its_time_the_answer_is_0(units: list[QueueUnit]) -> None:
    assert nearest(20, units=units) == 0


def test_a_store_time_of_0_is_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TIMES, 1000, 0)
    assert nearest(0) == nearest(4) == FIRST


FIRST_NOT_OLDER = [(0, 5), (10, 5), (11, 6), (20, 6), (21, 7), (40, 8), (41, 9)]


@pytest.mark.parametrize(("time_ms", "queue_offset"), FIRST_NOT_OLDER)
def test_5_3_gives_the_first_message_that_is_not_older(time_ms: int, queue_offset: int) -> None:
    queue = cast(ConsumeQueue, Queue())
    assert first_at_or_after(queue, time_ms, store_time) == queue_offset


def test_5_3_begins_at_the_minimum_and_takes_a_lost_unit_for_older(monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_at_or_after(cast(ConsumeQueue, Queue(min_offset=7)), 0, store_time) == 7
    monkeypatch.setattr(Queue, "unit", lambda queue, queue_offset: None)
    assert first_at_or_after(cast(ConsumeQueue, Queue()), 0, store_time) == 9
