"""String.hashCode over the UTF-16 of raw UTF-8 bytes, without making the string.

Java: h = 31 * h + unit over the code units of `new String(bytes, UTF_8)`, wrapping at 32 bits. A hash continues from
one range of bytes to the next, so that "topic#key" need not be joined. Intermediate values are kept as 0 … 2^32 - 1;
products may exceed 2^63 in compiled code, where only their low 32 bits count.

Malformed bytes become U+FFFD as in Java's decoder: one for each longest prefix of a well-formed sequence, one for an
encoded surrogate (three in Python).

Source: java.lang.String, sun.nio.cs.UTF_8 (Java 8 to 21), IndexFile.indexKeyHashMethod (RocketMQ 4.9.8).
"""

from __future__ import annotations

from store.kernels.cython import Address, Flag, Long, cfunc
from store.kernels.native import read_byte, read_long

WORD_MASK = 0xFFFFFFFF
SIGN_BIT = 0x80000000
REPLACEMENT = 0xFFFD
# The top bit of each of eight bytes, as a signed long.
_HIGH_BITS = 0x8080808080808080 - (1 << 64)
_POWERS = tuple(pow(31, power, 1 << 32) for power in range(9))
_POWER_2, _POWER_4, _POWER_8 = _POWERS[2], _POWERS[4], _POWERS[8]
_BYTE_PAIRS, _WORD_PAIRS = 0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF


@cfunc
def hash_text(buffer: Address, start: Long, stop: Long, before: Long) -> Long:
    """Return the hash `before`, continued over the text in start … stop - 1."""
    value = before
    at = start
    while stop - at >= 8:
        word = read_long(buffer, at)
        if word & _HIGH_BITS != 0:
            return hash_beyond_ascii(buffer, at, stop, value)
        value = (value * _POWER_8 + hash_eight(word)) & WORD_MASK
        at += 8
    if at >= stop:
        return value
    if stop < 8:
        return hash_beyond_ascii(buffer, at, stop, value)
    # The remaining bytes, with zeros before them: leading zeros do not change the hash.
    word = read_long(buffer, stop - 8) & ((1 << 8 * (stop - at)) - 1)
    if word & _HIGH_BITS != 0:
        return hash_beyond_ascii(buffer, at, stop, value)
    return (value * _POWERS[stop - at] + hash_eight(word)) & WORD_MASK


@cfunc
def hash_eight(word: Long) -> Long:
    """Return the hash of eight ASCII characters by joining pairs three times; the first is the high byte."""
    pairs = (word >> 8 & _BYTE_PAIRS) * 31 + (word & _BYTE_PAIRS)
    fours = (pairs >> 16 & _WORD_PAIRS) * _POWER_2 + (pairs & _WORD_PAIRS)
    return (fours >> 32) * _POWER_4 + (fours & WORD_MASK)


@cfunc
def hash_beyond_ascii(buffer: Address, start: Long, stop: Long, before: Long) -> Long:
    """Return the same as hash_text, for any UTF-8."""
    value = before
    at = start
    while at < stop:
        code, size = decode_one(buffer, at, stop)
        if code > 0xFFFF:
            value = (value * 31 + 0xD800 + ((code - 0x10000) >> 10)) & WORD_MASK
            code = 0xDC00 + ((code - 0x10000) & 0x3FF)
        value = (value * 31 + code) & WORD_MASK
        at += size
    return value


@cfunc
def decode_one(buffer: Address, at: Long, stop: Long) -> tuple[Long, Long]:
    """Return the code point at `at` and its number of bytes; U+FFFD for malformed bytes."""
    first = read_byte(buffer, at)
    if first < 0x80:
        return first, 1
    if first < 0xC2 or first > 0xF4:
        return REPLACEMENT, 1
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    code = first & (0x7F >> size)
    for number in range(1, size):
        if at + number >= stop:
            return REPLACEMENT, number
        byte = read_byte(buffer, at + number)
        if byte & 0xC0 != 0x80 or (number == 1 and not is_second_byte(first, byte)):
            return REPLACEMENT, number
        code = code << 6 | (byte & 0x3F)
    if 0xD800 <= code <= 0xDFFF:
        return REPLACEMENT, 3
    return code, size


@cfunc
def is_second_byte(first: Long, second: Long) -> Flag:
    """Return whether a continuation byte may follow `first`: no overlong form, nothing above U+10FFFF."""
    if first == 0xE0:
        return second >= 0xA0
    if first == 0xF0:
        return second >= 0x90
    return first != 0xF4 or second < 0x90


@cfunc
def to_int(value: Long) -> Long:
    """Return 0 … 2^32 - 1 as a signed Java int."""
    return (value ^ SIGN_BIT) - SIGN_BIT


@cfunc
def to_key_hash(value: Long) -> Long:
    """Return the hash as in the index: Math.abs, and 0 for -2^31 (IndexFile.indexKeyHashMethod)."""
    if value == SIGN_BIT:
        return 0
    return abs(to_int(value))
