"""Names, values and numbers in property bytes, at every place of a block of 64 bytes."""

from __future__ import annotations

import pytest

from store.kernels import properties
from store.kernels.properties import DELAY, KEYS, OTHER, TAGS, UNIQ_KEY, find_values, name_code, parse_int

CODES = {b"TAGS": TAGS, b"KEYS": KEYS, b"DELAY": DELAY, b"UNIQ_KEY": UNIQ_KEY}


@pytest.mark.parametrize("name", CODES)
def test_a_name_has_its_code_with_all_its_bytes_alone(name: bytes) -> None:
    assert name_code(b"=" + name + b"=", 1, len(name)) == CODES[name]
    for at in range(len(name)):
        changed = b"=" + name[:at] + bytes([name[at] ^ 1]) + name[at + 1 :] + b"="
        assert name_code(changed, 1, len(name)) == OTHER, changed
    for size in {len(name) - 1, len(name) + 1} - {0}:
        assert name_code(b"=" + name + b"=", 1, size) == OTHER


def test_the_codes_differ() -> None:
    assert len({OTHER, *CODES.values()}) == 5


def values(text: bytes) -> dict[bytes, bytes]:
    """The values that dispatch needs, by name; other bytes stand on both sides."""
    data = b"TAGS\x01" + text + b"\x01x\x02TAGS\x01y"
    places = find_values(data, 5, 5 + len(text))
    names = (b"TAGS", b"DELAY", b"UNIQ_KEY", b"KEYS")
    found = {name: places[2 * at : 2 * at + 2] for at, name in enumerate(names)}
    assert all((start < 0) == (stop < 0) for start, stop in found.values())
    return {name: data[start:stop] for name, (start, stop) in found.items() if start >= 0}


def exact(text: bytes) -> dict[bytes, bytes]:
    parts = (part.partition(b"\x01") for part in text.split(b"\x02"))
    return {name: value for name, _, value in parts if name in CODES and value}


@pytest.mark.parametrize("before", [*range(3), *range(40, 70), *range(118, 132)])
def test_a_property_is_found_wherever_its_block_ends(before: int) -> None:
    for rest in (
        b"TAGS\x01t",
        b"UNIQ_KEY\x01u\x02KEYS\x01k l\x02",
        b"DELAY\x013\x02TAGS\x01a\x02TAGS\x01b",
        b"KEYS\x01" + b"k" * 70,
    ):
        text = b"p\x01" + b"v" * before + b"\x02" + rest
        assert values(text) == exact(text), text
        text = b"n" * before + b"\x01v\x02" + rest
        assert values(text) == exact(text), text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"", {}),
        (b"TAGS", {}),
        (b"TAGS\x01", {}),
        (b"\x01TAGS\x01t", {}),
        (b"TAGS\x01t", {b"TAGS": b"t"}),
        (b"TAGS\x01\x01", {b"TAGS": b"\x01"}),
        (b"TAGS\x01a\x01b\x02", {b"TAGS": b"a\x01b"}),
        (b"TAGS\x01a\x02TAGS\x01", {b"TAGS": b"a"}),
        (b"TAGS\x02KEYS\x01k", {b"KEYS": b"k"}),
        (b"\x02\x02KEYS\x01k\x02\x02", {b"KEYS": b"k"}),
        (b"KEYS\x01k\x02TAGS\x01t\x02DELAY\x011", {b"KEYS": b"k", b"TAGS": b"t", b"DELAY": b"1"}),
        (b"UNIQ_KEY\x01u", {b"UNIQ_KEY": b"u"}),
    ],
)  # fmt: skip
def test_a_part_counts_with_a_name_and_a_value(text: bytes, found: dict[bytes, bytes]) -> None:
    assert values(text) == found


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"0", 0), (b"9", 9), (b"10", 10), (b"-7", -7), (b"+7", 7), (b"007", 7),
        (b"2147483647", 2147483647), (b"2147483648", None), (b"-2147483648", -2147483648), (b"-2147483649", None),
        (b"21474836470", None), (b"", None), (b"+", None), (b"-", None), (b"--1", None), (b"1-", None),
        (b"/", None), (b":", None), (b"1 ", None), (b" 1", None), (b"1/", None), (b"1:", None), (b"-0", 0),
    ],
)  # fmt: skip
def test_a_number_is_what_java_makes_of_it(text: bytes, number: int | None) -> None:
    data = b"3" + text + b"4"
    found = parse_int(data, 1, 1 + len(text))
    assert found == ((False, 0) if number is None else (True, number))


def test_a_block_has_as_many_bytes_as_are_looked_at_at_once() -> None:
    assert properties.find_all(bytes(200), 0, 0, 200) == (1 << properties.BLOCK_SIZE) - 1
