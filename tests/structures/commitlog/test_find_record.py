"""The next record is found wherever pieces of the search end, and a near one without a look at what is far."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from store.files.mapping import PAGE_SIZE
from store.formats.message import MESSAGE_MAGIC_V1
from store.structures.commitlog.resync import FIRST_FIND_BYTES, LARGEST_RECORD_BYTES, find_record
from tests.support.logs import record

SIZE = 12 * FIRST_FIND_BYTES
FAR = FIRST_FIND_BYTES + LARGEST_RECORD_BYTES


@dataclass
class Bytes:
    """A segment in memory, which notes how far it was asked for."""

    data: bytearray
    asked_to: int = 0
    file_start: int = 0
    path: Path = Path("segment")
    size: int = SIZE
    readable_position: int = SIZE

    @property
    def buffer(self) -> memoryview:
        return memoryview(self.data)

    def readable_end(self, start: int, stop: int) -> int:
        self.asked_to = max(self.asked_to, stop)
        return stop

    def behind_unreadable(self, start: int, stop: int) -> int:
        return stop

    def next_written(self, position: int) -> int:
        return position

    def written_end(self) -> int:
        return len(self.buffer)


def segment_with(at: int, body_size: int) -> Bytes:
    data = bytearray(b"\x01" * SIZE)
    one = record(body=bytes(body_size), position=at)
    data[at : at + len(one)] = one
    return Bytes(data)


# The first piece ends at 1 MiB, the second, which begins at 1, at 4 MiB and 1.
@pytest.mark.parametrize(
    "at", [0, 5000, (1 << 20) - 50, (1 << 20) - 1, 1 << 20, (4 << 20) - 100, (4 << 20) + 1, 9 << 20]
)
@pytest.mark.parametrize("body_size", [0, 1000, 2 << 20])
def test_a_record_is_found_at_every_place(at: int, body_size: int) -> None:
    assert find_record(segment_with(at, body_size), 0) == at


def test_a_near_record_is_found_without_a_look_at_what_is_far() -> None:
    segment = segment_with(5000, 1000)
    assert find_record(segment, 0) == 5000
    assert segment.asked_to == FIRST_FIND_BYTES


class Sparse(Bytes):
    """A segment with a hole from its second page on; pages that were read count as written, as on a tmpfs."""

    def next_written(self, position: int) -> int:
        written = max(PAGE_SIZE, -(-self.asked_to // PAGE_SIZE) * PAGE_SIZE)
        return position if position < written else self.size


@pytest.mark.parametrize(
    ("position", "read"),
    [(0, FAR), (1, FAR), (100, FAR), (101, FIRST_FIND_BYTES), (PAGE_SIZE - 1, FIRST_FIND_BYTES), (PAGE_SIZE, 0)],
)
def test_of_a_hole_no_more_than_a_record_is_asked_for(position: int, read: int) -> None:
    size = FIRST_FIND_BYTES + 2 * LARGEST_RECORD_BYTES
    segment = Sparse(bytearray(size), size=size, readable_position=size)
    segment.data[100:104] = MESSAGE_MAGIC_V1.to_bytes(4, "big")
    assert find_record(segment, position) == -1
    assert segment.asked_to == read
