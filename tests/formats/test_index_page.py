"""The places in an index file, its times, and the files that may hold messages of a time."""

from __future__ import annotations

import pytest

from store.formats import index_page
from store.formats.index_page import (
    IndexEntry,
    IndexHeader,
    decode_entry,
    decode_header,
    decode_slot,
    entry_position,
    slot_position,
    time_diff_seconds,
)


def test_slots_follow_the_header_and_entries_the_slots() -> None:
    assert [slot_position(number) for number in (0, 1, 7)] == [40, 44, 68]
    assert [entry_position(7, number) for number in (0, 1, 2)] == [68, 88, 108]
    assert index_page.index_file_size(7, 3) == 128
    assert index_page.index_key("T", "k") == "T#k"
    data = bytearray(128)
    data[44:48] = (5).to_bytes(4, "big")
    entry = IndexEntry(-1, 1 << 40, 2, 3)
    data[88:108] = entry.encode()
    assert (decode_slot(data, 1), decode_slot(data, 0), decode_entry(data, 7, 1)) == (5, 0, entry)


@pytest.mark.parametrize(("count", "read"), [(-1, 1), (0, 1), (1, 1), (2, 2)])
def test_a_count_below_1_is_read_as_1(count: int, read: int) -> None:
    assert decode_header(IndexHeader(1, 2, 3, 4, 5, count).encode()) == IndexHeader(1, 2, 3, 4, 5, read)


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "matches"),
    [
        (0, 99, False), (0, 100, True), (0, 200, True), (0, 201, True), (99, 201, True), (100, 100, True),
        (150, 160, True), (200, 200, True), (200, 300, True), (201, 300, False),
    ],
)  # fmt: skip
def test_a_file_matches_a_time_that_touches_its_own(begin_ms: int, end_ms: int, matches: bool) -> None:
    assert IndexHeader(100, 200).matches_time(begin_ms, end_ms) is matches


@pytest.mark.parametrize(
    ("stored_ms", "begin_ms", "seconds"),
    [
        (1999, 1000, 0), (2000, 1000, 1), (1000, 1000, 0), (999, 1000, 0), (0, 1000, 0), (9000, 0, 0), (9000, -1, 0),
        (9001, 1, 9), ((1 << 31) * 1000, 1, (1 << 31) - 1), ((1 << 31) * 1000 + 1, 1, (1 << 31) - 1),
        (1 << 60, 1, (1 << 31) - 1),
    ],
)  # fmt: skip
def test_a_time_is_whole_seconds_after_the_file_s_first(stored_ms: int, begin_ms: int, seconds: int) -> None:
    assert time_diff_seconds(stored_ms, begin_ms) == seconds
