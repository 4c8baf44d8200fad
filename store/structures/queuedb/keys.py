"""Keys and values of the RocksDB with the consume queues.

    column family   key                                                      value
    default         int topicLen 01 topic 01 int queueId 01 long cqOffset    long phyOffset, int size, long tagsCode,
                                                                             long storeTimestamp
    offset          int topicLen 01 topic 01 "max"|"min" 01 int queueId      long phyOffset, long cqOffset
                    of CHECKPOINT_TOPIC, "max", queue 0                      long: end of the newest record dispatched

Source: RocksDBConsumeQueueTable, RocksDBConsumeQueueOffsetTable (5.3.3).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

UNITS, OFFSETS = "default", "offset"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
VALUE = struct.Struct(">qiqq")
VALUE_NAMES = ("log_offset", "size", "tags_code", "store_timestamp_ms")
VALUE_DTYPE = np.dtype(list(zip(VALUE_NAMES, (">i8", ">i4", ">i8", ">i8"), strict=True)))
assert VALUE_DTYPE.itemsize == VALUE.size
_MARK = b"\x01"
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")


class UnitKey(NamedTuple):
    """The queue and the queue offset of a unit."""

    topic: str
    queue_id: int
    queue_offset: int


class OffsetKey(NamedTuple):
    """The key of an entry in the offset table; `kind` is "max" for the newest unit, else "min"."""

    topic: str
    kind: str
    queue_id: int


class Place(NamedTuple):
    """The log offset and the queue offset of one unit."""

    log_offset: int
    queue_offset: int


def queue_prefix(topic: str, queue_id: int) -> bytes:
    """Return the common prefix of the keys of a queue's units."""
    name = topic.encode()
    return _INT.pack(len(name)) + _MARK + name + _MARK + _INT.pack(queue_id) + _MARK


def unit_key(topic: str, queue_id: int, queue_offset: int) -> bytes:
    """Return the key of one unit; negative offsets are never written."""
    return queue_prefix(topic, queue_id) + _LONG.pack(queue_offset)


def last_key(topic: str, queue_id: int) -> bytes:
    """Return the greatest possible key of a queue's unit; all bits of its queue offset are set."""
    return queue_prefix(topic, queue_id) + b"\xff" * _LONG.size


def offset_key(topic: str, queue_id: int, kind: str) -> bytes:
    """Return the key of a queue's newest ("max") or oldest ("min") unit in the offset table."""
    name = topic.encode()
    return _INT.pack(len(name)) + _MARK + name + _MARK + kind.encode() + _MARK + _INT.pack(queue_id)


def decode_unit_key(key: bytes) -> UnitKey | None:
    """Read the key of a unit; None for a malformed one."""
    name = _name_of(key)
    if name is None or len(key) != len(name) + 19:
        return None
    rest = key[5 + len(name) :]
    if rest[:1] + rest[5:6] != _MARK * 2:
        return None
    topic = _decode(name)
    return UnitKey(topic, *_INT.unpack(rest[1:5]), *_LONG.unpack(rest[6:])) if topic is not None else None


def decode_offset_key(key: bytes) -> OffsetKey | None:
    """Read a key of the offset table; None for a malformed one."""
    name = _name_of(key)
    if name is None or len(key) != len(name) + 14:
        return None
    rest, topic = key[5 + len(name) :], _decode(name)
    if topic is None or rest[:1] + rest[4:5] != _MARK * 2 or rest[1:4] not in (b"max", b"min"):
        return None
    return OffsetKey(topic, rest[1:4].decode(), *_INT.unpack(rest[5:]))


def decode_place(value: bytes) -> Place | None:
    """Read a value of the offset table; None for another length, as a broker skips it."""
    return Place(*_TWO_LONGS.unpack(value)) if len(value) == _TWO_LONGS.size else None


def encode_place(place: Place) -> bytes:
    """Write a value of the offset table."""
    return _TWO_LONGS.pack(*place)


def encode_long(value: int) -> bytes:
    """Write the value of the checkpoint."""
    return _LONG.pack(value)


def decode_long(value: bytes) -> int | None:
    """Read the value of the checkpoint."""
    return int(_LONG.unpack(value)[0]) if len(value) == _LONG.size else None


def _name_of(key: bytes) -> bytes | None:
    if key[4:5] != _MARK:
        return None
    size = _INT.unpack(key[:4])[0]
    return key[5 : 5 + size] if size >= 0 else None


def _decode(name: bytes) -> str | None:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None
