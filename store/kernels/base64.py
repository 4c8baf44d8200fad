"""Base64 as b64decode takes it with validate=True.

Bits behind the last byte have to be zeros here.
"""

from __future__ import annotations

from store.kernels.cython import Address, Long, cfunc
from store.kernels.native import read_byte, write_byte

_EQUALS = ord("=")
SIX_BITS = tuple(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".find(byte) % 65 for byte in range(256)
)
"""The value of a character of base64; 64 for another one."""


@cfunc
def decode_base64(source: Address, start: Long, end: Long, target: Address, at: Long) -> Long:
    """Decode base64 without blanks to `at`; returns the end, or -1 for another text."""
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
        # The bits behind the last byte are zeros.
        bad |= a | b | c | ((c & 3) << 6 if padding == 1 else (b & 15) << 6)
        write_byte(target, at, a << 2 | b >> 4)
        at += 1
        if padding == 1:
            write_byte(target, at, b << 4 | c >> 2)
            at += 1
    return -1 if bad > 63 else at
