"""Java's arithmetic, against values that a JVM printed."""

from __future__ import annotations

import math

import crcmod
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.java import (
    crc32,
    decode_utf8,
    double_text,
    key_hash,
    parse_int,
    parse_long,
    string_hash,
    tags_code,
    to_int,
    utf16_length,
)

java_crc = crcmod.mkCrcFun(0x104C11DB7, initCrc=0, rev=True, xorOut=0xFFFFFFFF)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("TagA", 2598919),
        ("polygenelubricants", -2147483648),
        ("😀", 1772899),
    ],
)
def test_string_hash_is_javas_over_utf16_units(text: str, expected: int) -> None:
    assert string_hash(text) == expected


def test_the_absolute_value_that_java_cannot_form_becomes_zero() -> None:
    assert [key_hash(f"polygenelubricant{last}") for last in "rst"] == [(1 << 31) - 1, 0, (1 << 31) - 1]


def test_no_tags_have_code_zero_and_others_keep_their_sign() -> None:
    assert tags_code("") == 0
    assert tags_code("polygenelubricants") == -(1 << 31)


@given(st.text(), st.text())
def test_string_hash_of_a_concatenation_follows_from_its_parts(left: str, right: str) -> None:
    joined = string_hash(left) * pow(31, utf16_length(right), 1 << 32) + string_hash(right)
    assert string_hash(left + right) & 0xFFFFFFFF == joined & 0xFFFFFFFF


@given(st.binary(max_size=4096))
def test_crc_is_the_ieee_polynomial_without_its_top_bit(data: bytes) -> None:
    assert crc32(data) == java_crc(data) & 0x7FFFFFFF


def test_malformed_text_decodes_as_java_decodes_it() -> None:
    assert decode_utf8(b"a\xed\xa0\x80b") == "a\ufffdb"
    assert decode_utf8(b"\xed\x9f\xbf\xff") == "\ud7ff\ufffd"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("0" * 6000 + "5", 5),
        (str((1 << 63) - 1), (1 << 63) - 1),
        (str(-(1 << 63)), -(1 << 63)),
        (str(1 << 63), None),
        (str(-(1 << 63) - 1), None),
        ("9" * 5000, None),
        ("²", None),
        ("", None),
        (" 1", None),
        ("--1", None),
    ],
)
def test_a_number_is_read_where_java_reads_one(text: str, number: int | None) -> None:
    assert parse_long(text) == number


# The smallest int, the largest, and their neighbours: as read from text, and as the low 32 bits.
INTS = [(-(1 << 31) - 1, None, (1 << 31) - 1), (-(1 << 31), -(1 << 31), -(1 << 31)), (-1, -1, -1), (0, 0, 0)]
INTS += [((1 << 31) - 1, (1 << 31) - 1, (1 << 31) - 1), (1 << 31, None, -(1 << 31)), (1 << 32, None, 0)]


@pytest.mark.parametrize(("number", "read", "low_bits"), INTS)
def test_an_int_has_32_bits(number: int, read: int | None, low_bits: int) -> None:
    assert (parse_int(str(number)), to_int(number)) == (read, low_bits)


@pytest.mark.parametrize("text", ["", "x", "1_0", "٣"])
def test_text_that_is_no_number_is_no_int(text: str) -> None:
    assert parse_int(text) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (-1.5, "-1.5"), (0.001, "0.001"), (0.00099, "9.9E-4"),
        (-0.0005, "-5.0E-4"), (9999999.0, "9999999.0"), (1e7, "1.0E7"), (-12345678.9, "-1.23456789E7"),
        (1e21, "1.0E21"), (1.5e300, "1.5E300"), (math.inf, "Infinity"), (-math.inf, "-Infinity"), (math.nan, "NaN"),
    ],
)  # fmt: skip
def test_a_double_has_javas_text(value: float, text: str) -> None:
    assert double_text(value) == text
