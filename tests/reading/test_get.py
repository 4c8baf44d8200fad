"""The limits and answers of one get call, one table a rule, on a log and a queue that are lists.

Source: DefaultMessageStore.getMessage, isTheBatchFull and checkInDiskByCommitOffset (4.9.8).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store.config import StoreConfig
from store.formats.message import Message, encode_record
from store.formats.queue_unit import BATCH_UNIT_SIZE, UNIT_SIZE, BatchUnit, ExtUnit, QueueUnit, encode_ext_address
from store.reading.get import get_message, physical_memory_size
from store.structures.get_result import GetResult, GetStatus

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
        self.start = self.min_offset = start

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

    def ext_unit(self, _tags_code: int) -> ExtUnit | None:
        return None


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
    for offset in (0, 7):
        assert get(queue, offset) == GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)


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


@pytest.mark.parametrize(("offset", "count"), [(1891, 8), (1892, 32)])
def test_a_message_exactly_as_far_from_the_end_as_the_ratio_of_memory_is_in_memory(offset: int, count: int) -> None:
    """The ratio is that of 3,100 records; the ninth message is 3,101 or 3,100 records before the log's end."""
    found = get(ListQueue(5000), offset, memory=5000 * SIZE, access_message_in_memory_max_ratio=62)
    assert len(found.messages) == count


def test_a_call_that_comes_from_disk_to_memory_goes_on_by_the_limits_of_memory() -> None:
    found = get(ListQueue(50), 0, memory=110 * SIZE, access_message_in_memory_max_ratio=40)
    # 44 records are in memory: the first six are on disk, fewer than the eight that the disk allows.
    assert len(found.messages) == 32


@pytest.mark.parametrize(("asked", "scanned"), [(1, 800), (799, 800), (800, 800), (801, 801), (900, 900)])
def test_a_call_scans_16000_bytes_of_units_or_as_many_as_asked_for(asked: int, scanned: int) -> None:
    class Nothing:
        def matches_tags_code(self, tags_code: int, _ext: ExtUnit | None = None) -> bool:
            return False

        def matches(self, message: object) -> bool:
            return False

    queue = ListQueue(2000)
    found = get_message(ListLog(2000), queue, 0, asked, StoreConfig(), Nothing(), lambda: ALL_IN_MEMORY)  # type: ignore[arg-type]
    assert (found.status, found.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, scanned)
    assert UNIT_SIZE * 800 == 16000


def test_a_removed_record_alone_says_that_it_is_being_removed() -> None:
    found = get(ListQueue(3), 0, log=ListLog(3, start=SEGMENT))
    assert (found.status, found.next_offset, found.messages) == (GetStatus.MESSAGE_WAS_REMOVING, 3, [])


@pytest.mark.parametrize("log_offset", [9 * SIZE, 1 << 60, -1, -5, -(1 << 63)])
def test_a_unit_that_names_no_place_in_the_log_is_damage_and_hides_no_other(log_offset: int) -> None:
    queue = ListQueue(9)
    queue.units[1] = QueueUnit(log_offset, SIZE, 1)

    class Bounded(ListLog):
        def read(self, log_offset: int, size: int) -> memoryview | None:
            return super().read(log_offset, size) if 0 <= log_offset < self.max_offset else None

    found = get(queue, 0, log=Bounded(9))
    assert (found.status, found.next_offset, len(found.messages)) == (GetStatus.FOUND, 9, 8)
    assert [str(log_offset) in str(damage) for damage in found.damaged] == [True]


def test_a_unit_of_a_lost_segment_is_damage() -> None:
    class Lost(ListLog):
        def read(self, log_offset: int, size: int) -> memoryview | None:
            return super().read(log_offset, size) if not 2 * SIZE <= log_offset < SEGMENT else None

    count = SEGMENT // SIZE + 5
    found = get(ListQueue(count), 0, count, log=Lost(count))
    assert len(found.damaged) == 1
    assert found.next_offset > 3


def test_expired_units_are_no_damage() -> None:
    assert get(ListQueue(3), 0, log=ListLog(3, start=SEGMENT)).damaged == []


@pytest.mark.parametrize("low", [0, 7])
def test_what_was_removed_is_passed_over_segment_by_segment(low: int) -> None:
    """Of each removed segment one record is asked for; the rest of it is skipped unread."""
    places = [low, SEGMENT - 1, SEGMENT, SEGMENT + 7, 2 * SEGMENT - SIZE, 2 * SEGMENT, 2 * SEGMENT + SIZE]
    asked: list[int] = []

    class Removed(ListLog):
        def read(self, log_offset: int, size: int) -> memoryview | None:
            asked.append(log_offset)
            return super().read(log_offset, size)

    queue = ListQueue(len(places))
    queue.units = [QueueUnit(place, SIZE, 0) for place in places]
    log = Removed(1, start=2 * SEGMENT)
    log.max_offset = 3 * SEGMENT
    found = get(queue, 0, log=log)
    assert asked == [low, SEGMENT, 2 * SEGMENT, 2 * SEGMENT + SIZE]
    assert (found.status, len(found.messages), found.next_offset) == (GetStatus.FOUND, 2, len(places))


@pytest.mark.parametrize(("hole", "status", "count", "lost"), [
    (0, GetStatus.MESSAGE_WAS_REMOVING, 0, 3), (SIZE, GetStatus.FOUND, 1, 2), (2 * SIZE, GetStatus.FOUND, 2, 1),
])  # fmt: skip
def test_a_record_that_is_removed_behind_messages_leaves_them_found(
    hole: int, status: GetStatus, count: int, lost: int
) -> None:
    class Holed(ListLog):
        def read(self, log_offset: int, size: int) -> memoryview | None:
            return None if log_offset == hole else memoryview(RECORD)

    found = get(ListQueue(3), 0, log=Holed(3))
    assert (found.status, len(found.messages), found.next_offset) == (status, count, 3)
    assert [one.record_count for one in found.damaged] == [lost]


def test_a_unit_at_the_log_s_start_that_is_not_its_record_is_damage() -> None:
    queue = ListQueue(2)
    queue.units = [QueueUnit(SIZE, SIZE + 1, 0)]
    found = get(queue, 0, log=ListLog(2, start=SIZE))
    assert [f"log offset {SIZE}," in str(damage) for damage in found.damaged] == [True]


def test_a_record_that_is_none_is_told_and_the_others_are_read() -> None:
    class Damaged(ListLog):
        def read(self, log_offset: int, size: int) -> memoryview | None:
            return memoryview(bytes(SIZE) if log_offset == 0 else RECORD)

    found = get(ListQueue(3), 0, log=Damaged(3))
    assert (found.status, len(found.messages), len(found.damaged), found.next_offset) == (GetStatus.FOUND, 2, 1, 3)


class Filter:
    """Lets units of these tags codes pass, and messages where `passes` says so."""

    def __init__(self, *tags_codes: int, passes: bool = True) -> None:
        self.tags_codes, self.passes = tags_codes, passes

    def matches_tags_code(self, tags_code: int, _ext: ExtUnit | None = None) -> bool:
        return tags_code in self.tags_codes

    def matches(self, message: object) -> bool:
        return self.passes


def filtered(queue: Any, message_filter: Filter, offset: int = 0, asked: int = 32) -> GetResult:
    log: Any = ListLog(5000)
    return get_message(log, queue, offset, asked, StoreConfig(), message_filter, lambda: ALL_IN_MEMORY)


@pytest.mark.parametrize(
    ("message_filter", "count", "status"),
    [
        (Filter(0, 1), 10, GetStatus.FOUND),
        (Filter(1), 5, GetStatus.FOUND),
        (Filter(2), 0, GetStatus.NO_MATCHED_MESSAGE),
        (Filter(0, 1, passes=False), 0, GetStatus.NO_MATCHED_MESSAGE),
    ],
)
def test_a_filter_asks_the_unit_then_the_message(message_filter: Filter, count: int, status: GetStatus) -> None:
    found = filtered(ListQueue(10), message_filter)
    assert (len(found.messages), found.status, found.next_offset) == (count, status, 10)


def test_a_unit_whose_tags_are_lost_with_the_extension_file_is_left_to_the_message() -> None:
    queue = ListQueue(10)
    queue.units = [unit._replace(tags_code=encode_ext_address(5)) if unit.tags_code else unit for unit in queue.units]
    assert len(filtered(queue, Filter(7)).messages) == 5


def test_physical_memory_is_that_of_the_machine() -> None:
    total = Path("/proc/meminfo").read_text(encoding="ascii").split()[1]
    assert physical_memory_size() == int(total) * 1024


class BatchQueue:
    """Records of `each` messages in one file, from queue offset 0 on."""

    holds_batches = True
    min_offset = 0

    def __init__(self, count: int, each: int = 3) -> None:
        self.max_offset, self.each = count * each, each
        self.units = [BatchUnit(i * SIZE, SIZE, i % 2, 0, i * each, each) for i in range(count)]

    def units_from(self, offset: int) -> Any:
        return iter(self.units[offset // self.each :]) if self.units else None

    def roll_next_file(self, offset: int) -> int:
        return offset + 1000

    def real_tags_code(self, tags_code: int) -> int:
        return tags_code


# memory, settings, messages in a record, offset, asked for; records, next offset
BATCH_LIMITS = [
    (ALL_IN_MEMORY, {}, 3, 0, 32, 10, 30),
    (ALL_IN_MEMORY, {}, 3, 0, 30, 10, 30),
    (ALL_IN_MEMORY, {}, 3, 0, 29, 9, 27),
    (ALL_IN_MEMORY, {}, 3, 0, 6, 2, 6),
    (ALL_IN_MEMORY, {}, 3, 0, 5, 1, 3),
    (ALL_IN_MEMORY, {}, 1, 0, 5, 5, 5),
    # The record that holds the offset comes whole, and whatever the limits are.
    (ALL_IN_MEMORY, {}, 3, 4, 32, 10, 33),
    (ALL_IN_MEMORY, {}, 3, 5, 1, 1, 6),
    (ALL_IN_MEMORY, {}, 40, 0, 32, 1, 40),
    # The other limits count records.
    (ALL_ON_DISK, {}, 3, 0, 32, 8, 24),
    (ALL_IN_MEMORY, {"max_transfer_bytes_on_message_in_memory": 4 * SIZE}, 3, 0, 32, 4, 12),
    (5000 * SIZE, {"access_message_in_memory_max_ratio": 62}, 1, 1891, 32, 8, 1899),
    (5000 * SIZE, {"access_message_in_memory_max_ratio": 62}, 1, 1892, 32, 32, 1924),
]


@pytest.mark.parametrize(("memory", "settings", "each", "offset", "asked", "count", "next_offset"), BATCH_LIMITS)
def test_a_call_to_a_batch_queue_gives_as_many_as_its_limits_allow(
    memory: int, settings: dict[str, int], each: int, offset: int, asked: int, count: int, next_offset: int
) -> None:
    found = get(BatchQueue(5000, each), offset, asked, log=ListLog(5000), memory=memory, **settings)
    assert (len(found.messages), found.message_count, found.next_offset) == (count, count * each, next_offset)
    assert found.status is GetStatus.FOUND


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("offset", "asked", "next_offset"), [(0, 1, 348), (10, 1, 358), (0, 347, 348), (0, 348, 349), (0, 400, 401)]
)
def test_a_call_to_a_batch_queue_looks_at_16000_bytes_of_units_or_as_many_as_asked_for(
    offset: int, asked: int, next_offset: int
) -> None:
    found = filtered(BatchQueue(1000, 1), Filter(), offset, asked)
    assert (found.status, found.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, next_offset)
    assert BATCH_UNIT_SIZE * 347 < 16000 < BATCH_UNIT_SIZE * 348


def test_messages_that_a_filter_leaves_out_of_a_batch_queue_are_not_counted() -> None:
    found = filtered(BatchQueue(6), Filter(1))
    assert (len(found.messages), found.message_count, found.next_offset) == (3, 9, 18)
    assert filtered(BatchQueue(6), Filter(0, 1, passes=False)).message_count == 0


def test_a_missing_file_of_a_batch_queue_is_rolled_over() -> None:
    queue = BatchQueue(10)
    queue.units = []
    found = get(queue, 3)
    assert (found.status, found.next_offset, found.message_count) == (GetStatus.OFFSET_FOUND_NULL, 1003, 0)


class TagOne:
    """Takes the units of tag code 1, every second one, and of their messages those that `bodies` says."""

    def __init__(self, bodies: bool) -> None:
        self.bodies = bodies

    def matches_tags_code(self, tags_code: int, ext: object = None) -> bool:
        return tags_code == 1

    def matches(self, message: object) -> bool:
        return self.bodies


# The log's start, the last unit looked at, whether messages match: of the units 0 to N, the odd ones have the tag.
NEWEST_DECIDES = [
    pytest.param(SIZE * 2, 1, True, GetStatus.MESSAGE_WAS_REMOVING, id="removed-last"),
    pytest.param(SIZE * 2, 2, True, GetStatus.MESSAGE_WAS_REMOVING, id="a-skipped-unit-changes-nothing"),
    pytest.param(-SEGMENT, 2, False, GetStatus.NO_MATCHED_MESSAGE, id="no-match"),
    pytest.param(-SEGMENT, 2, True, GetStatus.FOUND, id="found-stays"),
]


@pytest.mark.parametrize(("start", "last", "bodies", "status"), NEWEST_DECIDES)
def test_the_newest_unit_decides_while_there_is_no_message(
    start: int, last: int, bodies: bool, status: GetStatus
) -> None:
    log, queue = ListLog(last + 1, start), ListQueue(last + 1)
    config = StoreConfig(mapped_file_size_commit_log=SEGMENT)
    found = get_message(log, queue, 0, 32, config, TagOne(bodies), lambda: ALL_IN_MEMORY)  # type: ignore[arg-type]
    assert (found.status, found.next_offset) == (status, last + 1)


@pytest.mark.parametrize(("code", "bodies"), [(0, True), (1, False)])
def test_a_unit_that_does_not_match_behind_a_removed_one_matches_nothing(code: int, bodies: bool) -> None:
    queue = ListQueue(2)
    queue.units = [QueueUnit(0, SIZE, 1), QueueUnit(SEGMENT, SIZE, code)]
    log, config = ListLog(2, start=SEGMENT), StoreConfig(mapped_file_size_commit_log=SEGMENT)
    log.max_offset = SEGMENT + SIZE
    found = get_message(log, queue, 0, 32, config, TagOne(bodies), lambda: ALL_IN_MEMORY)  # type: ignore[arg-type]
    assert (found.status, found.next_offset, found.messages) == (GetStatus.NO_MATCHED_MESSAGE, 2, [])


@pytest.mark.parametrize(("start", "outside"), [(1, 2), (2, 1), (3, 0)])
def test_what_is_skipped_after_an_expired_unit_is_damage_unless_it_has_expired_too(start: int, outside: int) -> None:
    found = get(ListQueue(3), 0, log=ListLog(3, start * SIZE))
    assert (found.status, found.next_offset, found.messages) == (GetStatus.MESSAGE_WAS_REMOVING, 3, [])
    more = ", as at 1 more place" if outside == 2 else ""
    reason = f"a queue entry points to log offset {start * SIZE}{more}, where the log has no record of this size"
    assert [(one.reason, one.record_count) for one in found.damaged] == ([(reason, outside)] if outside else [])
