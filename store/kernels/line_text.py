"""Text and numbers of a line of JSON, each written at a position; the result is the next position."""

from __future__ import annotations

from store.kernels.cython import Address, Long, Longs, cfunc
from store.kernels.native import copy_bytes, read_byte, write_byte

_QUOTE, _ESCAPE, _BLANK, _DELETE, _ZERO, _MINUS = map(ord, '"\\ \x7f0-')


@cfunc
def put_piece(target: Address, at: Long, pieces: Address, piece_ends: Longs, piece: Long) -> Long:
    size: Long = piece_ends[piece + 1] - piece_ends[piece]
    copy_bytes(target, at, pieces, piece_ends[piece], size)
    return at + size


@cfunc
def put_text(target: Address, at: Long, source: Address, start: Long, end: Long) -> Long:
    """Write text for inside of quotes; return -1 unless it is printable ASCII."""
    while start < end:
        byte = read_byte(source, start)
        if byte < _BLANK or byte >= _DELETE:
            return -1
        if byte in (_QUOTE, _ESCAPE):
            write_byte(target, at, _ESCAPE)
            at += 1
        write_byte(target, at, byte)
        at += 1
        start += 1
    return at


@cfunc
def put_number(target: Address, at: Long, value: Long) -> Long:
    """Write a whole number of 64 bits."""
    if value < 0:
        write_byte(target, at, _MINUS)
        at += 1
    # -2^63 has no positive counterpart; (n + 9) // 10 is a tenth of a negative number, rounded towards zero.
    rest: Long = value if value < 0 else -value
    digits: Long = 1
    least: Long = rest
    while least <= -10:
        least = (least + 9) // 10
        digits += 1
    end = at + digits
    place = end - 1
    while place >= at:
        tens: Long = (rest + 9) // 10
        write_byte(target, place, _ZERO + tens * 10 - rest)
        rest = tens
        place -= 1
    return end


@cfunc
def put_field(target: Address, at: Long, pieces: Address, piece_ends: Longs, piece: Long, value: Long) -> Long:
    return put_number(target, put_piece(target, at, pieces, piece_ends, piece), value)
