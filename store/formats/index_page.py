"""The index file: a header, hash slots, entries.

    0                40                40 + 4 x slots
    | header         | slot | slot | … | entry 0 (never used) | entry 1 | entry 2 | …

    header  long begin time, long end time, long begin log offset, long end log offset, int used slots, int count
    slot    int number of the newest entry of its chain, 0 when empty
    entry   int key hash, long log offset, int seconds since begin time, int number of the next older entry

The count starts at 1: the newest entry is count - 1, and an index of capacity N holds N - 1 entries. The key itself is
not stored: a reader must read the record.

Source: IndexFile, IndexHeader (4.9.8, the same in 5.3.3).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = struct.Struct(">qqqqii")
HEADER_NAMES = (
    "begin_timestamp_ms",
    "end_timestamp_ms",
    "begin_log_offset",
    "end_log_offset",
    "used_slot_count",
    "index_count",
)
SLOT = struct.Struct(">i")
ENTRY = struct.Struct(">iqii")
ENTRY_NAMES = ("key_hash", "log_offset", "time_diff_seconds", "previous_entry")
HEADER_SIZE = 40
SLOT_SIZE = 4
ENTRY_SIZE = 20
assert (HEADER.size, SLOT.size, ENTRY.size) == (HEADER_SIZE, SLOT_SIZE, ENTRY_SIZE)

BEGIN_TIME_AT, END_TIME_AT, BEGIN_OFFSET_AT, END_OFFSET_AT, SLOT_COUNT_AT, INDEX_COUNT_AT = 0, 8, 16, 24, 32, 36

KEY_SEPARATOR = "#"
TAGS_TYPE = "T"
"""The text between topic and tags for an entry of tags (5.4 and later): topic#T#tags."""
MAX_TIME_DIFF_SECONDS = (1 << 31) - 1
FIRST_INDEX_COUNT = 1


class IndexHeader(NamedTuple):
    """The fields of the 40-byte header, in order."""

    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = 0
    begin_log_offset: int = 0
    end_log_offset: int = 0
    hash_slot_count: int = 0
    index_count: int = FIRST_INDEX_COUNT

    def encode(self) -> bytes:
        return HEADER.pack(*self)

    def matches_time(self, begin_ms: int, end_ms: int) -> bool:
        """Return whether the file may hold messages of that time (IndexFile.isTimeMatched)."""
        first, last = self.begin_timestamp_ms, self.end_timestamp_ms
        return (begin_ms < first and end_ms > last) or first <= begin_ms <= last or first <= end_ms <= last


class IndexEntry(NamedTuple):
    """One entry of a chain."""

    key_hash: int
    log_offset: int
    time_diff_seconds: int
    previous: int

    def encode(self) -> bytes:
        return ENTRY.pack(*self)


def decode_header(buffer: bytes | memoryview) -> IndexHeader:
    """Return the header; a count of 0 or less is read as 1, as in a new file."""
    header = IndexHeader._make(HEADER.unpack_from(buffer, 0))
    return header if header.index_count > 0 else header._replace(index_count=FIRST_INDEX_COUNT)


def decode_entry(buffer: bytes | memoryview, slot_count: int, number: int) -> IndexEntry:
    return IndexEntry._make(ENTRY.unpack_from(buffer, entry_position(slot_count, number)))


def decode_slot(buffer: bytes | memoryview, slot: int) -> int:
    value: int = SLOT.unpack_from(buffer, slot_position(slot))[0]
    return value


def slot_position(slot: int) -> int:
    return HEADER_SIZE + SLOT_SIZE * slot


def entry_position(slot_count: int, number: int) -> int:
    return HEADER_SIZE + SLOT_SIZE * slot_count + ENTRY_SIZE * number


def index_file_size(slot_count: int, entry_count: int) -> int:
    """Return the bytes of a file with that many slots and entries (420,000,040 for the defaults)."""
    return HEADER_SIZE + SLOT_SIZE * slot_count + ENTRY_SIZE * entry_count


def index_key(topic: str, key: str) -> str:
    """Return the hashed text of a key."""
    return topic + KEY_SEPARATOR + key


def time_diff_seconds(store_timestamp_ms: int, begin_timestamp_ms: int) -> int:
    """Return seconds since the file's first entry, limited to 0 … 2^31-1; 0 without a begin time."""
    if begin_timestamp_ms <= 0:
        return 0
    milliseconds = store_timestamp_ms - begin_timestamp_ms
    return min(milliseconds // 1000, MAX_TIME_DIFF_SECONDS) if milliseconds > 0 else 0


assert index_file_size(5_000_000, 20_000_000) == 420_000_040
