"""A get of a compacted topic by the broker's rules, and records that are copied into files with room for them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store.config import StoreConfig
from store.formats.message import BLANK_SIZE, Message, encode_record
from store.structures.compaction.feed import LastPair, feed
from store.structures.compaction.get import CompactedQueue
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE

UNIT_BYTES = 46
SECOND_FILE = 10_000
"""The log offset of the second file."""


def record(queue_offset: int, log_offset: int, topic: str = "T") -> bytes:
    message = Message.of(topic, b"x", keys=["k"])
    return encode_record(message, topic=topic.encode(), sys_flag=0, queue_offset=queue_offset, log_offset=log_offset,
                         store_timestamp_ms=1)  # fmt: skip


SIZE = len(record(0, 0))


def queue_of(*files: tuple[int, ...], torn: int = -1) -> CompactedQueue:
    """A queue of files with messages of these queue offsets; the record of `torn` is zeros."""
    queue = cast(Any, object.__new__(CompactedQueue))
    data: dict[Path, bytes] = {}
    queue._parts, queue._files = [], SimpleNamespace(read=lambda path, at, size: data[path][at : at + size])
    for number, offsets in enumerate(files):
        start, path = number * SECOND_FILE, Path(str(number))
        units = np.zeros(len(offsets), BATCH_UNIT_DTYPE)
        for row, offset in enumerate(offsets):
            units[row] = (start + row * SIZE, SIZE, 0, 1, offset, 1, -1, 0)
        parts = [record(offset, start + row * SIZE) for row, offset in enumerate(offsets)]
        parts = [bytes(SIZE) if offset == torn else part for offset, part in zip(offsets, parts, strict=True)]
        data[path] = b"".join(parts)
        queue._parts.append((SimpleNamespace(number=start, path=path), units))
    return cast(CompactedQueue, queue)


@pytest.mark.parametrize(
    ("files", "offset", "answer"),
    [
        pytest.param(((), ()), 0, ("NO_MESSAGE_IN_QUEUE", 0, 0, 0), id="no messages"),
        pytest.param(((3, 5), (8, 9)), 0, ("FOUND", 6, 3, 11, 3, 5), id="below the minimum"),
        pytest.param(((3, 5), (8, 9)), 3, ("FOUND", 6, 3, 11, 3, 5), id="at the first survivor"),
        pytest.param(((3, 5), (8, 9)), 4, ("FOUND", 6, 3, 11, 5), id="between two"),
        pytest.param(((3, 5), (8, 9)), 6, ("FOUND", 11, 3, 11, 8, 9), id="behind a file's last: from the next"),
        pytest.param(((3, 5), (), (8, 9)), 6, ("FOUND", 11, 3, 11, 8, 9), id="an empty file between"),
        pytest.param(((3, 5), (8, 9)), 9, ("FOUND", 11, 3, 11, 9), id="at the last entry"),
        pytest.param(((3, 5), (8, 9)), 10, ("NO_MATCHED_MESSAGE", 10, 3, 11), id="inside the last entry"),
        pytest.param(((3, 5), (8, 9)), 11, ("OFFSET_OVERFLOW_ONE", 11, 3, 11), id="at the end"),
        pytest.param(((3, 5), (8, 9)), 12, ("OFFSET_OVERFLOW_BADLY", 11, 3, 11), id="past the end"),
        pytest.param(((0, 5), (8, 9)), 12, ("OFFSET_OVERFLOW_BADLY", 0, 0, 11), id="past the end, from 0 on"),
        pytest.param(((), (8, 9), ()), 0, ("FOUND", 11, 8, 11, 8, 9), id="an empty file first and last"),
    ],
)
def test_a_get_answers_by_the_queues_ends(files: Any, offset: int, answer: tuple[Any, ...]) -> None:
    queue = queue_of(*files)
    for _, units in queue._parts[-2:]:
        if len(units) and units["queue_offset"][-1] == 9:
            units[-1]["message_count"] = 2
    found = queue.get(offset, 32, StoreConfig())
    offsets = [message.queue_offset for message in found.messages]
    assert (found.status.value, found.next_offset, found.min_offset, found.max_offset, *offsets) == answer


@pytest.mark.parametrize(
    ("max_count", "most", "most_bytes", "count"),
    [
        (32, 32, 1 << 18, 4),
        (4, 32, 1 << 18, 4),
        (3, 32, 1 << 18, 3),
        (32, 3, 1 << 18, 3),
        (0, 32, 1 << 18, 1),
        (32, 32, 3 * SIZE, 3),
        (32, 32, 3 * SIZE - 1, 2),
        (32, 32, SIZE - 1, 1),
    ],
)
def test_a_get_ends_with_its_limits_and_gives_one_at_least(
    max_count: int, most: int, most_bytes: int, count: int
) -> None:
    config = StoreConfig(
        max_transfer_count_on_message_in_memory=most, max_transfer_bytes_on_message_in_memory=most_bytes
    )
    found = queue_of((0, 1, 2, 3)).get(0, max_count, config)
    assert (len(found.messages), found.size, found.next_offset) == (count, count * SIZE, count)


def test_what_no_filter_takes_is_passed_over_and_a_torn_record_is_told() -> None:
    wanted = cast(Any, SimpleNamespace(matches=lambda message: message.queue_offset == 3))
    found = queue_of((0, 1, 2, 3, 4), torn=1).get(0, 32, StoreConfig(), wanted)
    assert ([message.queue_offset for message in found.messages], found.size, found.next_offset) == ([3], SIZE, 5)
    assert [damage.offset for damage in found.damaged] == [SIZE]
    none = queue_of((0, 1)).get(0, 32, StoreConfig(), cast(Any, SimpleNamespace(matches=lambda message: False)))
    assert (none.status.value, none.next_offset) == ("NO_MATCHED_MESSAGE", 2)


@pytest.mark.parametrize(
    ("room", "unit_count", "counts"),
    [
        pytest.param(3 * SIZE + BLANK_SIZE, 9, [3, 2], id="three and a blank"),
        pytest.param(3 * SIZE + BLANK_SIZE - 1, 9, [2, 2, 1], id="a byte less"),
        pytest.param(5 * SIZE + BLANK_SIZE, 6, [5], id="five entries of six"),
        pytest.param(5 * SIZE + BLANK_SIZE, 5, [4, 1], id="room for one entry only"),
        pytest.param(SIZE + BLANK_SIZE, 2, [1] * 5, id="one by one"),
        pytest.param(SIZE + BLANK_SIZE - 1, 9, [], id="no room for any"),
        pytest.param(SIZE + BLANK_SIZE, 1, [], id="no room for an entry and its mark"),
    ],
)
def test_a_pair_of_files_is_full_where_a_record_and_a_blank_do_not_fit(
    room: int, unit_count: int, counts: list[int]
) -> None:
    records = [record(number, 7) for number in range(5)]
    pairs = list(feed(LastPair(0, b"", 0, 0), records, room, unit_count * UNIT_BYTES))
    assert [pair.name for pair in pairs] == [number * room for number in range(len(counts))]
    done = 0
    for pair, count in zip(pairs, counts, strict=True):
        copies = b"".join(record(done + row, pair.name + row * SIZE) for row in range(count))
        assert (pair.log[: count * SIZE], len(pair.log), len(pair.units)) == (copies, room, unit_count * UNIT_BYTES)
        done += count


def test_records_follow_those_of_the_last_pair() -> None:
    before = record(0, 500)
    (pair,) = feed(LastPair(500, before + b"rest", SIZE, 1), [record(1, 7)], 2 * SIZE + BLANK_SIZE, 9 * UNIT_BYTES)
    assert (pair.name, pair.log) == (500, before + record(1, 500 + SIZE) + bytes(BLANK_SIZE))
    assert list(feed(LastPair(500, before, SIZE, 1), [], 1000, 9 * UNIT_BYTES)) == []
