"""Copies against originals, and properties that units repeat, against loops over bytes and decoded maps."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.java import string_hash
from store.formats.properties import INNER_NUM, KEYS, REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, decode_properties
from store.kernels.compare import parse_digits
from tests.support.logs import log_of, names, parts, texts
from tests.support.twice import both, scan

NAMES = st.one_of(names, st.sampled_from([b"TIMER_OUT_MS", b"REAL_TOPIC", b"TIMER_DEL_UNIQKEY", b"REAL_TOPIX"]))
VALUES = st.one_of(texts, st.integers(0, 10**20).map(lambda number: b"%d" % number))
PROPERTIES = st.lists(st.one_of(st.builds(lambda a, b: a + b"\x01" + b, NAMES, VALUES), NAMES), max_size=6)
LOGS = st.lists(PROPERTIES.map(b"\x02".join), max_size=6).map(lambda log: log_of([{"properties": p} for p in log]))


def maps_of(data: bytes) -> list[dict[str, str]]:
    columns = scan(data).matrix
    return [decode_properties(data[at : at + size]) for at, size in zip(columns[6], columns[7], strict=True)]


@given(st.lists(parts, min_size=1, max_size=6), st.data())
def test_the_first_byte_of_a_copy_that_differs_is_found_but_not_in_its_own_offset(
    log: list[dict[str, object]], draw: st.DataObject
) -> None:
    original = log_of(log)
    columns, copy = scan(original).matrix, bytearray(original)
    for at in draw.draw(st.lists(st.integers(0, len(copy) - 1), max_size=5)):
        copy[at] ^= draw.draw(st.integers(1, 255))
    rows = np.array(draw.draw(st.permutations(range(columns.shape[1]))), np.int64)
    places = columns[0][rows].copy()

    def ask(kernels: ModuleType) -> list[int]:
        found = np.zeros(len(rows), np.int64)
        kernels.first_differences(bytes(copy), original, columns, rows, places, found)
        return [int(one) for one in found]

    def naive(row: int) -> int:
        at, size = int(columns[0][row]), int(columns[1][row])
        others = (n for n in range(size) if not 28 <= n < 36 and copy[at + n] != original[at + n])
        return next(others, -1)

    assert both(ask) == [naive(row) for row in rows.tolist()]


def test_a_difference_of_each_byte_alone_is_found_but_for_the_log_offsets() -> None:
    original = log_of([{"body": b"first"}, {"body": b"second"}])
    columns = scan(original).matrix
    start, size = int(columns[0][1]), int(columns[1][1])
    rows, places = np.array([1, 0], np.int64), np.array([start, 0], np.int64)

    def ask(kernels: ModuleType, copy: bytes) -> list[int]:
        found = np.full(2, -7, np.int64)
        kernels.first_differences(copy, original, columns, rows, places, found)
        return [int(one) for one in found]

    for byte in range(size):
        copy = bytearray(original)
        copy[start + byte] ^= 1
        expected = [-1 if 28 <= byte < 36 else byte, -1]
        assert both(lambda kernels: ask(kernels, bytes(copy))) == expected, byte  # noqa: B023


DUES = [
    (b"", -1),
    (b"0", 0),
    (b"9", 9),
    (b"1" * 18, int("1" * 18)),
    (b"1" * 19, -1),
    (b"/", -1),
    (b":", -1),
    (b"1x", -1),
]


@pytest.mark.parametrize(("due", "number"), DUES)
def test_a_due_time_has_1_to_18_digits(due: bytes, number: int) -> None:
    assert timers(b"TIMER_OUT_MS\x01" + due) == (number, 0, 0)


@pytest.mark.parametrize("name", [b"TIMER_OUT_MS", b"REAL_TOPIC", b"TIMER_DEL_UNIQKEY"])
def test_a_timers_property_has_its_name_with_all_its_bytes_alone(name: bytes) -> None:
    assert timers(name + b"\x015") != timers(b"")
    for at in range(len(name)):
        assert timers(name[:at] + bytes([name[at] ^ 1]) + name[at + 1 :] + b"\x015") == timers(b"") == (-1, 0, 0)


def timers(properties: bytes) -> tuple[int, ...]:
    """Due time, hash of the topic and deletion of one record, between others that have none."""
    data = log_of([{}, {"properties": properties}, {}])
    columns = scan(data).matrix

    def ask(kernels: ModuleType) -> tuple[int, ...]:
        found = np.full((3, 1), -7, np.int64)
        kernels.timer_properties(data, columns, np.array([1]), *found)
        return tuple(found[:, 0].tolist())

    found: tuple[int, ...] = both(ask)
    return found


@pytest.mark.parametrize("name", [KEYS, TIMER_DEL_UNIQKEY, INNER_NUM])
@given(data=LOGS)
def test_records_with_a_property_are_those_whose_map_has_it(name: str, data: bytes) -> None:
    columns = scan(data).matrix

    def ask(kernels: ModuleType) -> list[int]:
        rows = np.zeros(columns.shape[1], np.int64)
        return rows[: kernels.rows_with_property(data, columns, columns.shape[1], name.encode(), rows)].tolist()

    assert both(ask) == [row for row, properties in enumerate(maps_of(data)) if name in properties]


@given(LOGS)
def test_a_timers_properties_are_those_of_its_map(data: bytes) -> None:
    columns = scan(data).matrix
    rows = np.arange(columns.shape[1])[::-1].copy()

    def ask(kernels: ModuleType) -> list[tuple[int, ...]]:
        found = np.zeros((3, len(rows)), np.int64)
        kernels.timer_properties(data, columns, rows, *found)
        return [tuple(column) for column in found.T.tolist()]

    def naive(properties: dict[str, str]) -> tuple[int, ...]:
        due = properties.get(TIMER_OUT_MS, "")
        is_time = due.isascii() and due.isdigit() and len(due) <= 18
        topic_hash = string_hash(properties.get(REAL_TOPIC, ""))
        return int(due) if is_time else -1, topic_hash, int(TIMER_DEL_UNIQKEY in properties)

    assert both(ask) == [naive(properties) for properties in maps_of(data)[::-1]]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"", -1), (b"0", 0), (b"007", 7), (b"1234567890", 1234567890), (b"9" * 18, 10**18 - 1), (b"1" * 19, -1),
        (b"1/", -1), (b"/", -1), (b"1:", -1), (b":", -1), (b"-1", -1),
    ],
)  # fmt: skip
def test_a_number_has_1_to_18_digits(text: bytes, number: int) -> None:
    assert parse_digits(b"1" + text + b"5", 1, 1 + len(text)) == number
