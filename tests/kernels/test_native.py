"""The operations on bytes as Python does them, at both ends of their ranges: compiled code has those of native.h."""

from __future__ import annotations

import sys
import zlib

import pytest

from store.kernels import native

MAGIC = -626843481
HEAD = b"\xda\xa3\x20"


@pytest.mark.parametrize("value", [-(1 << 63), -1, 0, (1 << 63) - 1])
def test_a_number_of_64_bits_is_taken(value: int) -> None:
    assert native.as_long(value) == value


@pytest.mark.parametrize("value", [-(1 << 63) - 1, 1 << 63])
def test_a_larger_number_overflows(value: int) -> None:
    with pytest.raises(OverflowError):
        native.as_long(value)


@pytest.mark.parametrize(
    ("read", "data", "value"),
    [
        (native.read_byte, b"\xff", 255),
        (native.read_short, b"\xff\xfe", -2),
        (native.read_short, b"\x7f\xff", 32767),
        (native.read_int, b"\xff\xff\xff\xfe", -2),
        (native.read_int, b"\x7f\xff\xff\xff", (1 << 31) - 1),
        (native.read_long, b"\xff" * 7 + b"\xfe", -2),
        (native.read_long, b"\x7f" + b"\xff" * 7, (1 << 63) - 1),
    ],
)
def test_a_number_is_read_big_endian_with_its_sign(read, data: bytes, value: int) -> None:  # type: ignore[no-untyped-def]
    assert read(b"\x55" + data + b"\x55", 1) == value


@pytest.mark.parametrize(
    ("write", "size"),
    [(native.write_byte, 1), (native.write_short, 2), (native.write_int, 4), (native.write_long, 8)],
)
def test_the_low_bits_of_a_number_are_written_big_endian_and_no_byte_beside(write, size: int) -> None:  # type: ignore[no-untyped-def]
    for value in (0, -1, -2, 0x0102030405060708, 1 << 8 * size, (1 << 8 * size) - 1, 1 << 8 * size - 1):
        buffer = bytearray(b"\x55" * 12)
        write(buffer, 2, value)
        assert buffer == b"\x55" * 2 + (value % (1 << 8 * size)).to_bytes(size, "big") + b"\x55" * (10 - size), value


def test_bytes_are_copied_and_compared_within_their_places_alone() -> None:
    target = bytearray(b"-" * 8)
    native.copy_bytes(target, 2, b"abcdefgh", 3, 4)
    assert target == b"--defg--"
    assert [native.bytes_equal(b"xdefgx", 1, b"abcdefgh", 3, size) for size in (0, 4, 5)] == [True, True, False]
    assert not native.bytes_equal(b"xdefgx", 0, b"abcdefgh", 3, 1)


@pytest.mark.parametrize("has_isal", [True, False])
def test_a_bodys_crc_lacks_its_top_bit_with_isal_and_without(has_isal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_isal:
        monkeypatch.setitem(sys.modules, "isal", None)
    native._crc32.cache_clear()
    try:
        for body in (b"", b"1", b"2", b"body", bytes(300)):
            assert native.body_crc(b"<" + body + b">", 1, len(body)) == zlib.crc32(body) & 0x7FFFFFFF
    finally:
        native._crc32.cache_clear()
    assert zlib.crc32(b"1") >> 31, "the top bit is set"


CHUNK = 1 << 16


@pytest.mark.parametrize("at", [0, 1, 5, *range(CHUNK - 5, CHUNK + 3), 2 * CHUNK - 4])
def test_the_head_of_a_magic_is_found_where_its_four_bytes_are_in_the_range(at: int) -> None:
    data = bytearray(2 * CHUNK)
    data[at : at + 3] = HEAD
    stops = (at + 3, at + 4, len(data))
    assert [native.find_head(data, MAGIC, 0, stop) for stop in stops] == [-1, at, at]
    assert [native.find_head(data, MAGIC, start, len(data)) for start in (at, at + 1)] == [at, -1]


@pytest.mark.parametrize("changed", range(3))
def test_a_head_is_its_three_bytes(changed: int) -> None:
    data = bytearray(b"--" + HEAD + b"--")
    assert native.find_head(data, MAGIC, 0, 7) == 2
    data[2 + changed] ^= 1
    assert native.find_head(data, MAGIC, 0, 7) == -1


@pytest.mark.parametrize(
    ("size", "start", "stop", "found"),
    [
        (2, 0, 6, 1),
        (2, 1, 6, 1),
        (2, 2, 6, 4),
        (2, 2, 5, -1),
        (2, 0, 3, 1),
        (2, 0, 2, -1),
        (1, 0, 6, 1),
        (1, 1, 1, -1),
        (0, 0, 6, -1),
    ],
)
def test_a_text_is_found_where_all_of_it_is_in_the_range(size: int, start: int, stop: int, found: int) -> None:
    assert native.find_bytes(b"-ab-ab", b"abc", size, start, stop) == found


@pytest.mark.parametrize(
    ("start", "stop", "found"), [(0, 6, 2), (2, 6, 2), (3, 6, 4), (5, 6, 6), (3, 4, 4), (0, 2, 2), (0, 3, 2), (4, 4, 4)]
)
def test_the_first_of_two_bytes_is_found_in_whatever_order_they_are_named(start: int, stop: int, found: int) -> None:
    data = b"--a-b-"
    for first, second in ((97, 98), (98, 97)):
        assert native.find_either(data, first, second, start, stop) == found


def test_one_byte_named_twice_is_found() -> None:
    assert [native.find_either(b"-ab", 98, 98, 0, stop) for stop in (2, 3)] == [2, 2]
    assert native.find_either(b"a", 97, 97, 0, 1) == 0


@pytest.mark.parametrize("byte", range(256))
def test_a_quote_a_backslash_and_a_control_character_are_special(byte: int) -> None:
    data = b'""ab%cab""' % byte
    is_special = byte in (0x22, 0x5C) or byte < 0x20
    assert native.find_special(data, 2, 7, True) == (4 if is_special else 7)
    assert native.find_special(data, 2, 7, False) == (4 if is_special or byte > 0x7F else 7)


def test_a_bit_is_set_for_each_of_64_bytes() -> None:
    data = b"=" + b"=-" * 50
    assert native.find_all(data, ord("="), 1, 101) == int("01" * 32, 2)
    assert native.find_all(data, ord("="), 0, 4) == 0b1011
    assert native.find_all(data, ord("="), 4, 4) == 0


@pytest.mark.parametrize("number", [0, 1, 31, 63])
def test_the_lowest_bit_has_its_number(number: int) -> None:
    assert native.lowest_bit(1 << number) == native.lowest_bit((1 << number) | (1 << 63)) == number


def test_a_field_is_read_and_set_by_its_slot() -> None:
    class Holder:
        __slots__ = ("first", "second")

    holder, slots = Holder(), [Holder.first, Holder.second]  # type: ignore[attr-defined]
    assert native.set_number(holder, slots, 1, 7) == 7
    assert (native.field_of(holder, slots, 1), holder.second) == (7, 7)  # type: ignore[attr-defined]


def test_the_clock_is_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.time, "time_ns", lambda: 1_700_000_000_123_999_999)
    assert native.clock_ms() == 1_700_000_000_123


def test_without_c_no_page_is_lost() -> None:
    assert native.has_lost_page() is False
