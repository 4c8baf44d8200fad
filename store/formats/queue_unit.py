"""The 20-byte unit of a consume queue.

    0        8       12        20
    | offset | size  | tags    |
    | long   | int   | long    |

offset  log offset of the record
size    its total size
tags    hash of TAGS, or the deliver time of a delayed message, or an address in the extension file

A unit counts as written if offset >= 0 and size > 0; a zero unit was never written. If the first live unit is not at
a file's start, pre-blank units (0, 0x7FFFFFFF, 0) fill the file up to it; they count as written. An address is a
position in ConsumeQueueExt plus Long.MIN_VALUE, so no hash and no time can equal it.

Source: ConsumeQueue, ConsumeQueueExt (4.9.8).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

UNIT = struct.Struct(">qiq")
UNIT_NAMES = ("log_offset", "size", "tags_code")
UNIT_SIZE = 20
assert UNIT.size == UNIT_SIZE

SIZE_AT = 8
TAGS_AT = 12

PRE_BLANK_SIZE = 0x7FFFFFFF
MAX_EXT_ADDRESS = -(1 << 31) - 1
_LONG_MIN = -(1 << 63)

# 5.x batch queues: offset, size, tags, store time, base queue offset, batch size, compacted offset, reserved.
BATCH_UNIT = struct.Struct(">qiqqqhii")
BATCH_UNIT_NAMES = (*UNIT_NAMES, "store_timestamp_ms", "queue_offset", "batch_size", "compacted_offset", "reserved")
BATCH_UNIT_SIZE = 46
assert BATCH_UNIT.size == BATCH_UNIT_SIZE

# An extension unit: its own size, tags code, store time, size of the filter bit map; then the bit map.
EXT_UNIT = struct.Struct(">hqqh")
EXT_UNIT_NAMES = ("size", "tags_code", "store_timestamp_ms", "bit_map_size")
EXT_UNIT_MIN_SIZE = 20
EXT_END = struct.Struct(">h")
EXT_END_SIZE = 4
EXT_END_MARK = -1
assert EXT_UNIT.size == EXT_UNIT_MIN_SIZE


class BatchUnit(NamedTuple):
    """One unit of a batch queue: a record, and the queue offsets of its messages."""

    log_offset: int
    size: int
    tags_code: int
    store_timestamp_ms: int
    queue_offset: int
    message_count: int

    @property
    def next_queue_offset(self) -> int:
        """The queue offset after the unit's last message."""
        return self.queue_offset + self.message_count


class QueueUnit(NamedTuple):
    """One unit: log offset and size of the record, and its tags code for filters."""

    log_offset: int
    size: int
    tags_code: int

    @property
    def is_written(self) -> bool:
        return self.log_offset >= 0 and self.size > 0

    @property
    def is_pre_blank(self) -> bool:
        return self == PRE_BLANK

    @property
    def ext_address(self) -> int | None:
        """Position in the extension file, None if tags_code is a hash or a time."""
        return decode_ext_address(self.tags_code) if is_ext_address(self.tags_code) else None

    def encode(self) -> bytes:
        return UNIT.pack(*self)


PRE_BLANK = QueueUnit(0, PRE_BLANK_SIZE, 0)


def decode_unit(buffer: bytes | memoryview, position: int = 0) -> QueueUnit:
    return QueueUnit._make(UNIT.unpack_from(buffer, position))


def is_ext_address(tags_code: int) -> bool:
    return tags_code <= MAX_EXT_ADDRESS


def encode_ext_address(position: int) -> int:
    return position + _LONG_MIN


def decode_ext_address(tags_code: int) -> int:
    return tags_code - _LONG_MIN


class ExtUnit(NamedTuple):
    """One unit of the extension file; its size on disk is 20 plus the bit map's."""

    tags_code: int
    store_timestamp_ms: int
    bit_map: bytes

    @property
    def size(self) -> int:
        return EXT_UNIT_MIN_SIZE + len(self.bit_map)

    def encode(self) -> bytes:
        return EXT_UNIT.pack(self.size, self.tags_code, self.store_timestamp_ms, len(self.bit_map)) + self.bit_map


def decode_ext_unit(buffer: bytes | memoryview, position: int) -> ExtUnit | None:
    """Return the unit at `position`; None for an end mark, zeros, or a size beyond the buffer."""
    if len(buffer) - position < EXT_UNIT_MIN_SIZE:
        return None
    size, tags_code, store_timestamp_ms, bit_map_size = EXT_UNIT.unpack_from(buffer, position)
    if size < EXT_UNIT_MIN_SIZE or size != EXT_UNIT_MIN_SIZE + bit_map_size or position + size > len(buffer):
        return None
    start = position + EXT_UNIT_MIN_SIZE
    return ExtUnit(tags_code, store_timestamp_ms, bytes(buffer[start : start + bit_map_size]))
