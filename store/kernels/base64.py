"""Base64, decoded as by b64decode with validate=True, but unused bits at the end must be zeros."""

from __future__ import annotations

from store.kernels.cython import Address, Long, cfunc
from store.kernels.native import read_byte, write_byte, write_int

_EQUALS = ord("=")
CHARACTERS = tuple(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
SIX_BITS = tuple(bytes(CHARACTERS).find(byte) % 65 for byte in range(256))
"""The value of each byte as a base64 character; 64 if it is none."""


@cfunc
def decode_base64(source: Address, start: Long, end: Long, target: Address, at: Long) -> Long:
    """Decode base64 text to `at`; return the end of the bytes, or -1 for other text."""
    if (end - start) & 3:
        return -1
    if start == end:
        return at
    padding: Long = 0
    while padding < 2 and read_byte(source, end - 1 - padding) == _EQUALS:
        padding += 1
    last = end - 4 if padding else end
    bad: Long = 0
    while start < last:
        a, b = SIX_BITS[read_byte(source, start)], SIX_BITS[read_byte(source, start + 1)]
        c, d = SIX_BITS[read_byte(source, start + 2)], SIX_BITS[read_byte(source, start + 3)]
        bad |= a | b | c | d
        write_byte(target, at, a << 2 | b >> 4)
        write_byte(target, at + 1, b << 4 | c >> 2)
        write_byte(target, at + 2, c << 6 | d)
        start += 4
        at += 3
    if padding:
        a, b = SIX_BITS[read_byte(source, start)], SIX_BITS[read_byte(source, start + 1)]
        c = SIX_BITS[read_byte(source, start + 2)] if padding == 1 else 0
        # Unused bits must be zeros.
        bad |= a | b | c | ((c & 3) << 6 if padding == 1 else (b & 15) << 6)
        write_byte(target, at, a << 2 | b >> 4)
        at += 1
        if padding == 1:
            write_byte(target, at, b << 4 | c >> 2)
            at += 1
    return -1 if bad > 63 else at


@cfunc
def encode_base64(source: Address, start: Long, end: Long, target: Address, at: Long) -> Long:
    """Write bytes as base64 to `at`; return the end of the text."""
    while start + 3 <= end:
        a, b, c = read_byte(source, start), read_byte(source, start + 1), read_byte(source, start + 2)
        head = CHARACTERS[a >> 2] << 24 | CHARACTERS[(a & 3) << 4 | b >> 4] << 16
        write_int(target, at, head | CHARACTERS[(b & 15) << 2 | c >> 6] << 8 | CHARACTERS[c & 63])
        start += 3
        at += 4
    if start < end:
        a, b = read_byte(source, start), read_byte(source, start + 1) if start + 1 < end else 0
        third: Long = CHARACTERS[(b & 15) << 2] if start + 1 < end else _EQUALS
        write_int(target, at, CHARACTERS[a >> 2] << 24 | CHARACTERS[(a & 3) << 4 | b >> 4] << 16 | third << 8 | _EQUALS)
        at += 4
    return at
