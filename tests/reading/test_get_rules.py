"""The limits and answers of one get call, one table a rule, on a log and a queue that are lists.

Source: DefaultMessageStore.getMessage, isTheBatchFull and checkInDiskByCommitOffset (4.9.8).
"""

from __future__ import annotations

from typing import Any

import pytest

from store.config import StoreConfig
from store.formats.message import Message, encode_record
from store.formats.queue_unit import UNIT_SIZE, QueueUnit
from store.reading.get import GetResult, GetStatus, get_message

SEGMENT = 1 << 20
RECORD = encode_record(
    Message("T", b"x" * 100), topic=b"T", sys_flag=0, queue_offset=0, log_offset=0, store_timestamp_ms=1
)
SIZE = len(RECORD)
ALL_IN_MEMORY = 1 << 50
ALL_ON_DISK = 0


class ListLog:
    """Records of one size behind one another; those below `start` are removed."""

    def __init__(self, count: int, start: int = 0) -> None:
        self.max_offset = count * SIZE
        self.start = start

    def read(self, log_offset: int, size: int) -> memoryview | None:
        return memoryview(RECORD) if log_offset >= self.start and size == SIZE else None


class ListQueue:
    """Units of one queue file, from queue offset `low` on."""

    holds_batches = False

    def __init__(self, count: int, low: int = 0, sizes: int = SIZE, step: int = SIZE) -> None:
        self.min_offset, self.max_offset = low, count
        self.units = [QueueUnit(i * step, sizes, i % 2) for i in range(count)]

    def read_range(self, offset: int) -> memoryview | None:
        return memoryview(b"".join(unit.encode() for unit in self.units[offset:])) if self.units else None

    def roll_next_file(self, offset: int) -> int:
        return offset + 1000

    def real_tags_code(self, tags_code: int) -> int:
        return tags_code


def get(
    queue: Any, offset: int, max_count: int = 32, *, log: Any = None, memory: int = ALL_IN_MEMORY, **settings: Any
) -> GetResult:
    config = StoreConfig(mapped_file_size_commit_log=SEGMENT, **settings)
    log = log or ListLog(queue.max_offset if queue is not None else 0)
    return get_message(log, queue, offset, max_count, config, None, lambda: memory)


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (4, GetStatus.OFFSET_TOO_SMALL, 5),
        (-1, GetStatus.OFFSET_TOO_SMALL, 5),
        (5, GetStatus.FOUND, 10),
        (9, GetStatus.FOUND, 10),
        (10, GetStatus.OFFSET_OVERFLOW_ONE, 10),
        (11, GetStatus.OFFSET_OVERFLOW_BADLY, 10),
    ],
)
def test_an_offset_outside_of_the_queue_has_its_status(offset: int, status: GetStatus, next_offset: int) -> None:
    found = get(ListQueue(10, low=5), offset)
    assert (found.status, found.next_offset, found.min_offset, found.max_offset) == (status, next_offset, 5, 10)


@pytest.mark.parametrize("queue", [None, ListQueue(0)])
def test_a_queue_without_messages_says_so_for_any_offset(queue: Any) -> None:
    assert [(get(queue, n).status, get(queue, n).next_offset) for n in (0, 7)] == [
        (GetStatus.NO_MESSAGE_IN_QUEUE, 0)
    ] * 2


def test_a_missing_queue_file_is_rolled_over() -> None:
    queue = ListQueue(10)
    queue.units = []
    assert (get(queue, 3).status, get(queue, 3).next_offset) == (GetStatus.OFFSET_FOUND_NULL, 1003)


# memory, settings, asked for, count of messages
LIMITS = [
    (ALL_IN_MEMORY, {}, 32, 32),
    (ALL_IN_MEMORY, {}, 5, 5),
    (ALL_IN_MEMORY, {}, 100, 32),
    (ALL_ON_DISK, {}, 32, 8),
    (ALL_ON_DISK, {}, 7, 7),
    (ALL_ON_DISK, {"max_transfer_count_on_message_in_disk": 3}, 32, 3),
    (ALL_ON_DISK, {"max_transfer_count_on_message_in_memory": 3}, 32, 8),
    (ALL_IN_MEMORY, {"max_transfer_count_on_message_in_memory": 3}, 32, 3),
    (ALL_IN_MEMORY, {"max_transfer_count_on_message_in_disk": 3}, 32, 32),
    (ALL_IN_MEMORY, {"max_transfer_bytes_on_message_in_memory": 4 * SIZE}, 32, 4),
    (ALL_IN_MEMORY, {"max_transfer_bytes_on_message_in_memory": 4 * SIZE - 1}, 32, 3),
    (ALL_ON_DISK, {"max_transfer_bytes_on_message_in_disk": 2 * SIZE}, 32, 2),
    (ALL_ON_DISK, {"max_transfer_bytes_on_message_in_disk": 2 * SIZE - 1}, 32, 1),
    # The first message comes whatever the limits are.
    (ALL_IN_MEMORY, {"max_transfer_bytes_on_message_in_memory": 1}, 32, 1),
    (ALL_ON_DISK, {"max_transfer_bytes_on_message_in_disk": 1}, 32, 1),
    (ALL_IN_MEMORY, {}, 0, 1),
]


@pytest.mark.parametrize(("memory", "settings", "asked", "count"), LIMITS)
def test_a_call_gives_as_many_as_its_limits_allow(
    memory: int, settings: dict[str, int], asked: int, count: int
) -> None:
    found = get(ListQueue(50), 0, asked, memory=memory, **settings)
    assert (len(found.messages), found.next_offset, found.size) == (count, count, count * SIZE)
    assert found.status is GetStatus.FOUND


@pytest.mark.parametrize(("ratio", "on_disk"), [(40, 50 * SIZE - 20 * SIZE), (100, 50 * SIZE - 50 * SIZE)])
def test_a_message_is_on_disk_when_more_of_the_log_is_behind_it_than_the_ratio_of_memory(
    ratio: int, on_disk: int
) -> None:
    """Memory is as large as 50 records: within its ratio the limit of memory holds, beyond it that of the disk."""
    found = get(ListQueue(50), 0, memory=50 * SIZE, access_message_in_memory_max_ratio=ratio)
    assert len(found.messages) == (8 if on_disk else 32)


@pytest.mark.parametrize(("offset", "count"), [(10, 8), (11, 32)])
def test_a_message_exactly_as_far_from_the_end_as_the_ratio_of_memory_is_in_memory(offset: int, count: int) -> None:
    """The ratio is that of 31 records; the ninth message is 32 or 31 records before the log's end."""
    found = get(ListQueue(50), offset, memory=50 * SIZE, access_message_in_memory_max_ratio=62)
    assert len(found.messages) == count


def test_a_call_that_comes_from_disk_to_memory_goes_on_by_the_limits_of_memory() -> None:
    found = get(ListQueue(50), 0, memory=110 * SIZE, access_message_in_memory_max_ratio=40)
    # 44 records are in memory: the first six are on disk, fewer than the eight that the disk allows.
    assert len(found.messages) == 32


@pytest.mark.parametrize(("asked", "scanned"), [(1, 800), (799, 800), (800, 800), (801, 801), (900, 900)])
def test_a_call_scans_16000_bytes_of_units_or_as_many_as_asked_for(asked: int, scanned: int) -> None:
    class Nothing:
        def matches_tags_code(self, tags_code: int) -> bool:
            return False

        def matches(self, message: object) -> bool:
            return False

    queue = ListQueue(2000)
    found = get_message(ListLog(2000), queue, 0, asked, StoreConfig(), Nothing(), lambda: ALL_IN_MEMORY)  # type: ignore[arg-type]
    assert (found.status, found.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, scanned)
    assert UNIT_SIZE * 800 == 16000


def test_records_that_were_removed_are_passed_over_to_the_next_segment() -> None:
    per_segment = SEGMENT // SIZE
    queue = ListQueue(per_segment + 10, step=SIZE)
    found = get(queue, 0, log=ListLog(per_segment + 10, start=SEGMENT), max_count=10_000)
    assert found.status is GetStatus.MESSAGE_WAS_REMOVING or found.messages
    assert found.next_offset >= 800


def test_a_removed_record_alone_says_that_it_is_being_removed() -> None:
    found = get(ListQueue(3), 0, log=ListLog(3, start=SEGMENT))
    assert (found.status, found.next_offset, found.messages) == (GetStatus.MESSAGE_WAS_REMOVING, 3, [])
