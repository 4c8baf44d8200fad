"""MessageDatabase: the RocksDB rocksdbstore/ of 5.4 and later, read from a copy.

Every start of a broker creates it; a family whose switch is off stays empty. Only RocksDB flushes its WAL, so the
database of a killed broker may lack five minutes of entries.

Source: MessageRocksDBStorage (5.5.0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Any, TypeVar

from store.files.filesystem import Filesystem
from store.files.rocksdb_copy import damage_of, open_copy
from store.files.rocksdb_newer import manifest_of
from store.layout import StoreLayout
from store.setting_values import MAX_LONG
from store.structures.messagedb.keys import (
    FAMILIES,
    HOUR_MS,
    INDEX,
    NAMES,
    SCAN_OFFSET,
    TIMER,
    TRANS,
    VALUE_SIZES,
    HalfEntry,
    IndexEntry,
    TimerEntry,
    decode_half,
    decode_index,
    decode_long,
    decode_timer,
    encode_long,
    hour_of,
)

FOLDER = "rocksdbstore"
CONTENT = "index, timers and half messages"
_COMPARED = 1000
T = TypeVar("T")


class MessageDatabase:
    """The entries of one message database.

    longs  by family and name, the offsets and times of its progress
    """

    def __init__(self, families: dict[str, Any], folder: Path) -> None:
        self._families, self._folder = families, folder
        self.longs: dict[str, dict[bytes, int]] = {}
        with damage_of(folder, CONTENT):
            for family, names in NAMES.items():
                values = ((name, families[family].get(name)) for name in names)
                known = {name: decode_long(value) for name, value in values if value is not None}
                self.longs[family] = {name: long for name, long in known.items() if long is not None}

    @classmethod
    def empty(cls, folder: Path) -> MessageDatabase:
        """Return a lost database: it has no entries."""
        return cls({family: {} for family in FAMILIES}, folder)

    def long(self, family: str, name: bytes) -> int:
        """Return an offset or a time of the database's progress; 0 if it has none."""
        return self.longs[family].get(name, 0)

    @property
    def has_timers(self) -> bool:
        """Whether a broker has used it for timers: it has some, or an offset in their queue."""
        return SCAN_OFFSET in self.longs[TIMER] or any(isinstance(one, TimerEntry) for one in self.timers())

    def index(self) -> Iterator[IndexEntry | bytes]:
        """Return the index in key order; for a malformed entry its key."""
        return self._entries(INDEX, decode_index)

    def index_under(self, prefix: bytes, first_ms: int = 0, last_ms: int = MAX_LONG) -> Iterator[IndexEntry]:
        """Yield entries under `prefix` stored in this time range, by hour and then by unique key."""
        with damage_of(self._folder, CONTENT):
            for hour in self._hours(first_ms, last_ms):
                for key, value in self._families[INDEX].items(from_key=hour + prefix):
                    if not key.startswith(hour + prefix):
                        break
                    entry = decode_index(key, value)
                    if entry is not None and first_ms <= entry.store_timestamp_ms <= last_ms:
                        yield entry

    def oldest_indexed(self) -> int:
        """Return the lowest log offset in the first hour of the index; MAX_LONG without entries."""
        with damage_of(self._folder, CONTENT):
            hour = next(self._hours(0, MAX_LONG), None)
            found = self._families[INDEX].items(from_key=hour) if hour is not None else ()
            entries = (decode_index(*one) for one in takewhile(lambda one: one[0][:8] == hour, found))
            return min((one.log_offset for one in entries if one is not None), default=MAX_LONG)

    def _hours(self, first_ms: int, last_ms: int) -> Iterator[bytes]:
        """Yield each hour with entries as a key prefix; one seek per hour."""
        at = max(HOUR_MS, hour_of(first_ms))
        while at <= last_ms:
            key = next(self._families[INDEX].keys(from_key=encode_long(at)), None)
            if key is None or key in NAMES[INDEX]:
                return
            at = int.from_bytes(key[:8], "big")
            if at <= last_ms and not at % HOUR_MS:
                yield key[:8]
            at += 1

    def timers(self) -> Iterator[TimerEntry | bytes]:
        """Return the timers in order of delivery time; for a malformed entry its key."""
        return self._entries(TIMER, decode_timer)

    def halves(self) -> Iterator[HalfEntry | bytes]:
        """Return the half messages in order of log offset; for a malformed entry its key."""
        return self._entries(TRANS, decode_half)

    def odd_sizes(self) -> Iterator[tuple[str, int]]:
        """Yield family and size of a value that no broker up to 5.5 writes; of first and last entries alone."""
        with damage_of(self._folder, CONTENT):
            for family, size in VALUE_SIZES.items():
                column = self._families[family]
                ends = islice(column.items(), _COMPARED), islice(column.items(backwards=True), _COMPARED)
                sizes = {len(value) for key, value in chain(*ends) if key not in NAMES[family]} - {size}
                yield from ((family, odd) for odd in sorted(sizes))

    def _entries(self, family: str, decode: Callable[[bytes, bytes], T | None]) -> Iterator[T | bytes]:
        with damage_of(self._folder, CONTENT):
            for key, value in self._families[family].items():
                if key not in NAMES[family]:
                    entry = decode(key, value)
                    yield key if entry is None else entry
                elif decode_long(value) is None:
                    yield key


def open_database(folder: Path, scratch: Path, fs: Filesystem) -> MessageDatabase:
    """Open a copy of the database in `folder`, made in `scratch`.

    Raises BadRequest without the package rocksdict, DamagedFile if RocksDB does not open the copy, StoreIOError.
    """
    return MessageDatabase(open_copy(folder, scratch, fs, CONTENT, FAMILIES), folder)


def may_hold_entries(layout: StoreLayout, fs: Filesystem) -> bool:
    """Return whether the database may hold an entry: it has or lost a table, or its WAL is not empty."""
    folder = layout.root / FOLDER
    files = fs.list_folder(folder) if fs.is_folder(folder) else []
    has_files = any(one.path.suffix == ".sst" or (one.path.suffix == ".log" and one.size > 0) for one in files)
    return has_files or _names_a_table(folder, fs)


def _names_a_table(folder: Path, fs: Filesystem) -> bool:
    """Return whether the MANIFEST has a table: the last key of one is the name of a long."""
    manifest = manifest_of(folder, fs)
    return any(name in manifest for names in NAMES.values() for name in names)
