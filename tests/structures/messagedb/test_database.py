"""The entries of a message database by hour and prefix, and whether it may hold one, by its files alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.setting_values import MAX_LONG
from store.structures.messagedb.database import FOLDER, MessageDatabase, may_hold_entries
from store.structures.messagedb.keys import (
    FAMILIES,
    HOUR_MS,
    INDEX,
    LAST_OFFSET,
    LAST_TIME,
    IndexEntry,
    encode_long,
    index_prefix,
)


@pytest.mark.parametrize(
    ("files", "may_hold"),
    [
        ({}, False),
        ({"000001.log": 0}, False),
        ({"000001.log": 1}, True),
        ({"000001.sst": 0}, True),
        ({"MANIFEST-000001": 9, "CURRENT": 16, "LOG": 5, "000001.log": 0}, False),
        ({"MANIFEST-000001": 9, "000001.log": 0, "000002.log": 1}, True),
    ],
)
def test_a_database_may_hold_entries_with_a_table_or_a_log_of_writes(
    files: dict[str, int], may_hold: bool, tmp_path: Path
) -> None:
    layout, fs = StoreLayout(tmp_path), Filesystem()
    assert not may_hold_entries(layout, fs)
    (tmp_path / FOLDER).mkdir()
    for name, size in files.items():
        (tmp_path / FOLDER / name).write_bytes(bytes(size))
    assert may_hold_entries(layout, fs) is may_hold


class Family:
    """A column family with these entries, and the number of seeks."""

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        self.entries, self.seeks = dict(sorted(entries.items())), 0

    def get(self, key: bytes) -> bytes | None:
        return self.entries.get(key)

    def items(self, from_key: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        self.seeks += 1
        return ((key, value) for key, value in self.entries.items() if key >= from_key)

    def keys(self, from_key: bytes = b"") -> Iterator[bytes]:
        return (key for key, _ in self.items(from_key))


def entry(hour: int, log_offset: int, text: str = "k", more_ms: int = 0) -> IndexEntry:
    return IndexEntry(hour * HOUR_MS, "T", "K", text, "U", log_offset, hour * HOUR_MS + more_ms)


def database_of(*entries: IndexEntry, **longs: int) -> tuple[MessageDatabase, Family]:
    names = {"offset": LAST_OFFSET, "time": LAST_TIME}
    values = {names[name]: encode_long(value) for name, value in longs.items()}
    index = Family({**dict(one.encode() for one in entries), **values})
    families = {family: index if family == INDEX else Family({}) for family in FAMILIES}
    return MessageDatabase(families, Path("db")), index


ENTRIES = [entry(1, 50), entry(1, 40, "j"), entry(1, 30, "k", 7), entry(2, 20), entry(5, 10, "k", HOUR_MS - 1)]


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "places"),
    [
        (0, MAX_LONG, [30, 50, 20, 10]),
        (HOUR_MS, MAX_LONG, [30, 50, 20, 10]),
        (HOUR_MS + 1, MAX_LONG, [30, 20, 10]),
        (HOUR_MS + 7, MAX_LONG, [30, 20, 10]),
        (HOUR_MS + 8, MAX_LONG, [20, 10]),
        (2 * HOUR_MS, 2 * HOUR_MS, [20]),
        (2 * HOUR_MS + 1, 6 * HOUR_MS - 2, []),
        (2 * HOUR_MS + 1, 6 * HOUR_MS - 1, [10]),
        (6 * HOUR_MS - 1, MAX_LONG, [10]),
        (6 * HOUR_MS, MAX_LONG, []),
        (0, HOUR_MS - 1, []),
    ],
)
def test_entries_under_a_prefix_come_by_hour_within_their_times(first_ms: int, last_ms: int, places: list[int]) -> None:
    database, _ = database_of(*ENTRIES, offset=60, time=99)
    found = database.index_under(index_prefix("T", "K", "k"), first_ms, last_ms)
    assert [one.log_offset for one in found] == places


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "hours", "seeks"),
    [
        (0, MAX_LONG, [1, 2, 5], 4),
        (2 * HOUR_MS, MAX_LONG, [2, 5], 3),
        (3 * HOUR_MS, MAX_LONG, [5], 2),
        (0, 2 * HOUR_MS, [1, 2], 2),
        (0, 2 * HOUR_MS - 1, [1], 2),
        (0, HOUR_MS - 1, [], 0),
    ],
)
def test_each_hour_with_entries_costs_a_seek(first_ms: int, last_ms: int, hours: list[int], seeks: int) -> None:
    database, index = database_of(*ENTRIES, offset=60)
    assert list(database._hours(first_ms, last_ms)) == [encode_long(hour * HOUR_MS) for hour in hours]
    assert index.seeks == seeks


@pytest.mark.parametrize(
    ("entries", "lowest"),
    [([], MAX_LONG), (ENTRIES, 30), (ENTRIES[3:], 20), ([entry(3, 0)], 0), ([entry(0, 5), entry(1, 9)], 9)],
)
def test_the_lowest_log_offset_is_that_of_the_first_hour(entries: list[IndexEntry], lowest: int) -> None:
    database, _ = database_of(*entries, offset=60, time=99)
    assert (database.oldest_indexed(), database.long(INDEX, LAST_OFFSET), database.long(INDEX, LAST_TIME)) == (
        lowest, 60, 99
    )  # fmt: skip
    assert database_of(*entries)[0].long(INDEX, LAST_OFFSET) == 0


def test_malformed_entries_and_names_without_a_long_are_given_as_their_keys() -> None:
    database, index = database_of(ENTRIES[0], offset=60)
    index.entries |= {LAST_TIME: b"short", b"~": b""}
    index.entries = dict(sorted(index.entries.items()))
    assert list(database.index()) == [ENTRIES[0], LAST_TIME, b"~"]
