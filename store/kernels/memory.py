"""What a kernel may do to bytes: read and write big-endian values, compare, copy, find, take a CRC.

These are the only functions that exist twice. The plain ones below work on a memoryview, with struct and zlib.
compile.py gives numba a twin for each that works on the address of a uint8 array. The kernels are written once, on
top of these.

No function looks at bounds: whoever calls has checked position and size against the bytes there are.
Results are Python ints here and int64 there; signed unless the name says otherwise.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_SHORT = struct.Struct(">h")
_FIND_CHUNK = 1 << 16
CRC_MASK = 0x7FFFFFFF


def read_byte(buffer: Any, position: int) -> int:
    """The byte as 0 … 255."""
    return int(buffer[position])


def read_short(buffer: Any, position: int) -> int:
    value: int = _SHORT.unpack_from(buffer, position)[0]
    return value


def read_int(buffer: Any, position: int) -> int:
    value: int = _INT.unpack_from(buffer, position)[0]
    return value


def read_long(buffer: Any, position: int) -> int:
    value: int = _LONG.unpack_from(buffer, position)[0]
    return value


def write_byte(buffer: Any, position: int, value: int) -> None:
    buffer[position] = value & 0xFF


def write_short(buffer: Any, position: int, value: int) -> None:
    _SHORT.pack_into(buffer, position, value)


def write_int(buffer: Any, position: int, value: int) -> None:
    _INT.pack_into(buffer, position, value)


def write_long(buffer: Any, position: int, value: int) -> None:
    _LONG.pack_into(buffer, position, value)


def copy_bytes(target: Any, position: int, source: Any, start: int, size: int) -> None:
    """Copy `size` bytes of source from `start` to target at `position`; the two do not overlap."""
    target[position : position + size] = source[start : start + size]


def bytes_equal(buffer: Any, position: int, other: Any, start: int, size: int) -> bool:
    return bool(buffer[position : position + size] == other[start : start + size])


def body_crc(buffer: Any, position: int, size: int) -> int:
    """RocketMQ's CRC of a stretch: IEEE CRC-32 without its top bit."""
    return zlib.crc32(buffer[position : position + size]) & CRC_MASK


def find_head(buffer: Any, head: int, start: int, stop: int) -> int:
    """First position in start … stop - 4 of an int whose upper three bytes are those of `head`, or -1.

    RocketMQ's two record magics differ in the last byte only.
    """
    wanted = (head >> 8 & 0xFFFFFF).to_bytes(3, "big")
    while start + 4 <= stop:
        chunk = bytes(buffer[start : min(stop, start + _FIND_CHUNK)])
        found = chunk[:-1].find(wanted)
        if found >= 0:
            return start + found
        start += len(chunk) - 3
    return -1


def find_either(buffer: Any, first: int, second: int, start: int, stop: int) -> int:
    """First position in start … stop - 1 of one byte or the other, or `stop`."""
    part = bytes(buffer[start:stop])
    found = part.find(first)
    other = part.find(second, 0, found if found >= 0 else len(part)) if second != first else -1
    place = other if other >= 0 else found
    return start + place if place >= 0 else stop


def prefetch(buffer: Any, position: int) -> None:
    """Ask for the cache line at `position`, which may lie outside the buffer. Nothing to do here."""


PRIMITIVES = (
    read_byte,
    read_short,
    read_int,
    read_long,
    write_byte,
    write_short,
    write_int,
    write_long,
    copy_bytes,
    bytes_equal,
    body_crc,
    find_head,
    find_either,
    prefetch,
)
