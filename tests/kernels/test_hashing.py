"""Java's hash of raw UTF-8, against a decoder and a hash written for clarity."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.kernels import hashing
from tests.support import naive
from tests.support.logs import record
from tests.support.twice import both, scan


def tags_code(tags: bytes) -> int:
    """The code of a record with these tags, by both kinds of kernels."""
    data = record(properties=b"TAGS\x01" + tags)
    columns = scan(data).matrix

    def ask(kernels: ModuleType) -> int:
        codes = np.zeros(1, np.int64)
        kernels.tags_codes(data, columns, 1, np.zeros(0, np.int64), codes)
        return int(codes[0])

    code: int = both(ask)
    return code


def hash_of(data: bytes) -> int:
    return hashing.hash_text(memoryview(data), 0, len(data), 0)


@given(st.one_of(st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=12)))
def test_any_bytes_hash_as_the_text_java_reads_in_them(data: bytes) -> None:
    assert hash_of(data) == naive.java_hash(naive.java_text(data))


@given(st.binary(min_size=1, max_size=40).filter(lambda data: not {1, 2} & set(data)))
def test_tags_hash_alike_in_both_modes(tags: bytes) -> None:
    assert tags_code(tags) == naive.signed(naive.java_hash(naive.java_text(tags)))


@pytest.mark.parametrize(
    ("text", "code"),
    # Values of String.hashCode(), known from Java itself.
    [
        ("TagA", 2598919),
        ("polygenelubricants", -(1 << 31)),
        ("hello", 99162322),
        ("😀", 1772899),
        ("\uffff", 65535),
        ("\U00010000", 1770496),
    ],
)
def test_known_hash_codes(text: str, code: int) -> None:
    assert tags_code(text.encode()) == code


@pytest.mark.parametrize(
    ("data", "units"),
    [
        (b"\xc3\xa9", "é"),
        (b"\xed\xa0\x80", "\ufffd"),  # an encoded surrogate is one replacement to Java
        (b"\xed\xa0", "\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xf0\x80\x80\x80", "\ufffd" * 4),
        (b"\xe0\x80a", "\ufffd\ufffda"),
        (b"\xc0\xaf", "\ufffd\ufffd"),
        (b"\xf4\x90\x80\x80", "\ufffd" * 4),
        (b"\xffabc", "\ufffdabc"),
    ],
)
def test_malformed_bytes_are_replaced_as_java_does(data: bytes, units: str) -> None:
    assert hash_of(data) == naive.java_hash(units)
    assert naive.java_text(data) == units


def test_the_hash_without_a_positive_twin_becomes_zero() -> None:
    assert hashing.to_key_hash(0x80000000) == 0
    assert hashing.to_key_hash(0xFFFFFFFF) == 1
    assert hashing.to_key_hash(0x7FFFFFFF) == 0x7FFFFFFF


@pytest.mark.parametrize("first", [0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4])
def test_a_second_byte_makes_no_overlong_form_and_no_letter_above_the_last_plane(first: int) -> None:
    rest = {0xE: b"\x80", 0xF: b"\x80\x80"}.get(first >> 4, b"")

    def is_text(second: int) -> bool:
        try:
            return bool((bytes([first, second]) + rest).decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            return False

    seconds = range(0x80, 0xC0)
    assert [bool(hashing.is_second_byte(first, one)) for one in seconds] == [is_text(one) for one in seconds]
