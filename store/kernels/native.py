"""Operations on bytes that differ between C and Python: native.h when compiled, else this module.

No function checks bounds: the caller has checked position and size. Values are big-endian, and signed unless the
docstring says otherwise.
"""

from __future__ import annotations

import functools
import re
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store.kernels.cython import Address, Bytes, Object

_SHORT, _INT, _LONG = (struct.Struct(code) for code in (">h", ">i", ">q"))
_SHORT_BITS, _INT_BITS, _LONG_BITS = (struct.Struct(code) for code in (">H", ">I", ">Q"))
_FIND_CHUNK = 1 << 16
_SPECIAL, _SPECIAL_OR_WIDE = re.compile(rb'["\\\x00-\x1f]'), re.compile(rb'["\\\x00-\x1f\x80-\xff]')
CRC_MASK = 0x7FFFFFFF


def start_of(buffer: Bytes) -> Address:
    """Return the address of a buffer's first byte; here the buffer."""
    return buffer


def size_of(buffer: Bytes) -> int:
    return len(buffer)


def address_of(values: bytes | bytearray | memoryview) -> Address:
    """Return the address of the first byte of an object that is not resized; here the object."""
    return values


def as_tuple(values: Object) -> Object:
    """Return a tuple of any class, typed as a plain one: that is unpacked faster."""
    return values


def tuple_of(kind: Object, items: Object) -> Object:
    """Return a tuple of class `kind`, made without calling it."""
    return tuple.__new__(kind, items)


def field_of(holder: Object, slots: Object, number: int) -> Object:
    """Return the field of `holder` for slot `number` of its class, as `holder.field` does."""
    return getattr(holder, slots[number].__name__)


def as_long(value: Object) -> int:
    """Return a number of 64 bits; raise OverflowError for a larger one."""
    if not -1 << 63 <= value < 1 << 63:
        raise OverflowError("Python int too large to convert to C long")
    return int(value)


def set_number(holder: Object, slots: Object, number: int, value: int) -> Object:
    """Set the field of slot `number`, and return its object; an equal object stays."""
    setattr(holder, slots[number].__name__, value)
    return value


def clock_ms() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def read_byte(buffer: Address, position: int) -> int:
    """Return the byte as 0 … 255."""
    return int(buffer[position])


def read_short(buffer: Address, position: int) -> int:
    value: int = _SHORT.unpack_from(buffer, position)[0]
    return value


def read_int(buffer: Address, position: int) -> int:
    value: int = _INT.unpack_from(buffer, position)[0]
    return value


def read_long(buffer: Address, position: int) -> int:
    value: int = _LONG.unpack_from(buffer, position)[0]
    return value


def write_byte(buffer: Address, position: int, value: int) -> None:
    buffer[position] = value & 0xFF


def write_short(buffer: Address, position: int, value: int) -> None:
    _SHORT_BITS.pack_into(buffer, position, value & 0xFFFF)


def write_int(buffer: Address, position: int, value: int) -> None:
    _INT_BITS.pack_into(buffer, position, value & 0xFFFFFFFF)


def write_long(buffer: Address, position: int, value: int) -> None:
    _LONG_BITS.pack_into(buffer, position, value & 0xFFFFFFFFFFFFFFFF)


def copy_bytes(target: Address, position: int, source: Address, start: int, size: int) -> None:
    """Copy `size` bytes of source from `start` to target at `position`; the two do not overlap."""
    target[position : position + size] = source[start : start + size]


def bytes_equal(buffer: Address, position: int, other: Address, start: int, size: int) -> bool:
    return bool(buffer[position : position + size] == other[start : start + size])


def body_crc(buffer: Address, position: int, size: int) -> int:
    """Return RocketMQ's CRC of a range of bytes: IEEE CRC-32 without its top bit."""
    return _crc32()(bytes(buffer[position : position + size])) & CRC_MASK


@functools.cache
def _crc32() -> Callable[[bytes], int]:
    """Return the function for CRC-32: isal's, else crcmod's."""
    try:
        from isal import isal_zlib
    except ImportError:
        import crcmod.predefined

        portable: Callable[[bytes], int] = crcmod.predefined.mkCrcFun("crc-32")
        return portable
    return isal_zlib.crc32


def find_head(buffer: Address, head: int, start: int, stop: int) -> int:
    """Return the first position in start … stop - 4 of an int that begins as `head` does, or -1.

    Three bytes are compared: RocketMQ's two record magics differ only in the last.
    """
    wanted = (head >> 8 & 0xFFFFFF).to_bytes(3, "big")
    while start + 4 <= stop:
        chunk = bytes(buffer[start : min(stop, start + _FIND_CHUNK)])
        found = chunk[:-1].find(wanted)
        if found >= 0:
            return start + found
        start += len(chunk) - 3
    return -1


def find_bytes(buffer: Address, text: Address, size: int, start: int, stop: int) -> int:
    """Return the first position in start … stop - size of `size` bytes of text, or -1."""
    found = bytes(buffer[start:stop]).find(bytes(text[:size])) if size > 0 and stop > start else -1
    return start + found if found >= 0 else -1


def find_either(buffer: Address, first: int, second: int, start: int, stop: int) -> int:
    """Return the first position in start … stop - 1 of one byte or the other, or `stop`."""
    part = bytes(buffer[start:stop])
    found = part.find(first)
    other = part.find(second, 0, found if found >= 0 else len(part)) if second != first else -1
    place = other if other >= 0 else found
    return start + place if place >= 0 else stop


def find_special(buffer: Address, start: int, stop: int, is_utf8: bool) -> int:
    """Return the position of the first quote, backslash or control character, or `stop`.

    is_utf8  whether bytes that are not ASCII are passed over; else the first of them is found as well
    """
    found = (_SPECIAL if is_utf8 else _SPECIAL_OR_WIDE).search(buffer, start, stop)
    return found.start() if found else stop


def find_all(buffer: Address, wanted: int, start: int, stop: int) -> int:
    """Return a bit for each of the next 64 bytes that is this byte, the lowest for the first."""
    part = bytes(buffer[start : min(stop, start + 64)])
    return sum(1 << place for place, byte in enumerate(part) if byte == wanted)


def lowest_bit(bits: int) -> int:
    """Return the number of the lowest bit that is set; there must be one."""
    return (bits & -bits).bit_length() - 1


def prefetch(buffer: Address, position: int) -> None:
    """Prefetch the cache line at `position`, inside of the buffer or not, for a read; here nothing."""


def prefetch_near(buffer: Address, position: int) -> None:
    """Prefetch the line into the first level of the cache, for a write; here nothing."""


def has_lost_page() -> bool:
    """Return whether a page was lost (lost_pages.h); here never."""
    return False
