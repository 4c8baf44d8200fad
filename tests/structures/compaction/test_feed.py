"""The pairs of files that copies fill: where a file ends, and what follows."""

from __future__ import annotations

import pytest

from store import Message
from store.formats.message import encode_record
from store.structures.compaction.feed import LastPair, feed
from store.structures.consumequeue.batch_units import batch_units_of


def record(queue_offset: int) -> bytes:
    message = Message.of("T", b"body", keys=["k"])
    return encode_record(message, topic=b"T", sys_flag=0, queue_offset=queue_offset, log_offset=1 << 40,
                         store_timestamp_ms=9)  # fmt: skip


SIZE = len(record(0))
NONE = LastPair(0, b"", 0, 0)


def fed(last: LastPair, count: int, log_size: int, unit_size: int) -> list[tuple[int, list[int], list[int]]]:
    """The names of the pairs with the queue offsets and log offsets of their units."""
    found = list(feed(last, [record(number) for number in range(10, 10 + count)], log_size, unit_size))
    rows = []
    for pair in found:
        assert (len(pair.log), len(pair.units)) == (log_size, unit_size)
        units = batch_units_of(pair.units)
        units = units[units["size"] == SIZE]
        for unit in units:
            at = int(unit["log_offset"]) - pair.name
            assert int.from_bytes(pair.log[at + 28 : at + 36], "big") == unit["log_offset"]
        rows.append((pair.name, units["queue_offset"].tolist(), units["log_offset"].tolist()))
    return rows


@pytest.mark.parametrize(
    ("count", "log_size", "unit_size", "pairs"),
    [
        (0, 1000, 460, []),
        (1, SIZE + 8, 92, [(0, [10], [0])]),
        (1, SIZE + 7, 92, []),
        (1, SIZE + 8, 91, []),
        (2, 2 * SIZE + 8, 460, [(0, [10, 11], [0, SIZE])]),
        (2, 2 * SIZE + 7, 460, [(0, [10], [0]), (2 * SIZE + 7, [11], [2 * SIZE + 7])]),
        (2, 1000, 138, [(0, [10, 11], [0, SIZE])]),
        (3, 1000, 138, [(0, [10, 11], [0, SIZE]), (1000, [12], [1000])]),
        (2, 1000, 92, [(0, [10], [0]), (1000, [11], [1000])]),
    ],
)
def test_a_file_takes_records_that_leave_room_for_a_blank_and_an_end_mark(
    count: int, log_size: int, unit_size: int, pairs: list[tuple[int, list[int], list[int]]]
) -> None:
    assert fed(NONE, count, log_size, unit_size) == pairs


def test_copies_follow_those_of_the_last_pair() -> None:
    (first,) = feed(LastPair(5000, b"", 0, 0), [record(8), record(9)], 1000, 460)
    last = LastPair(5000, first.log, 2 * SIZE, 2)
    assert fed(last, 1, 1000, 460) == [(5000, [8, 9, 10], [5000, 5000 + SIZE, 5000 + 2 * SIZE])]
    full = LastPair(5000, first.log, 2 * SIZE, 2)
    assert fed(full, 1, 1000, 138) == [(5000, [8, 9], [5000, 5000 + SIZE]), (6000, [10], [6000])]
    assert fed(last, 0, 1000, 460) == []
