"""QueueDatabase: the RocksDB with a store's consume queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from store.files import rocksdb_copy
from store.files.filesystem import Filesystem
from store.formats.queue_unit import BatchUnit
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE, NO_COMPACTED_OFFSET, BatchUnitArray
from store.structures.queuedb.keys import (
    CHECKPOINT_TOPIC,
    OFFSETS,
    UNITS,
    VALUE,
    VALUE_DTYPE,
    Place,
    decode_long,
    decode_offset_key,
    decode_place,
    unit_key,
)
from store.structures.queuedb.runs import MalformedEntry, UnitRun, runs_of

QueueKey = tuple[str, int]
FindUnit = Callable[[int], BatchUnit | None]
CONTENT = "consume queues"


class QueueDatabase:
    """The consume queues in one RocksDB.

    newest, oldest  offsets of these units in the offset table, by queue; a broker writes `oldest` on a request for it
    checkpoint      the log offset after the newest record with units
    malformed       keys and values of the offset table that a broker can't read
    """

    def __init__(self, families: dict[str, Any], folder: Path) -> None:
        self._families, self._folder = families, folder
        self.newest: dict[QueueKey, Place] = {}
        self.oldest: dict[QueueKey, Place] = {}
        self.checkpoint = 0
        self.malformed: list[bytes] = []
        with rocksdb_copy.damage_of(folder, CONTENT):
            for key, value in families[OFFSETS].items():
                self._take(key, value)

    def _take(self, key: bytes, value: bytes) -> None:
        name, place, end = decode_offset_key(key), decode_place(value), decode_long(value)
        if name is not None and name.topic == CHECKPOINT_TOPIC and end is not None:
            self.checkpoint = end
        elif name is not None and place is not None:
            table = self.newest if name.kind == "max" else self.oldest
            table[name.topic, name.queue_id] = place
        else:
            self.malformed.append(key)

    def units(self, queue: QueueKey) -> BatchUnitArray:
        """Return the units of a queue up to the newest one in the offset table.

        Later units are stale.
        """
        newest = self.newest.get(queue)
        if newest is None:
            return np.zeros(0, BATCH_UNIT_DTYPE)
        keys = unit_key(*queue, 0), unit_key(*queue, newest.queue_offset)
        found = [run for run in self.runs(*keys) if isinstance(run, UnitRun)]
        units = np.zeros(sum(len(run.values) for run in found), BATCH_UNIT_DTYPE)
        units["message_count"], units["compacted_offset"] = 1, NO_COMPACTED_OFFSET
        row = 0
        for run in found:
            part = units[row : row + len(run.values)]
            for name in VALUE_DTYPE.names or ():
                part[name] = run.values[name]
            part["queue_offset"] = run.queue_offsets
            row += len(part)
        return units

    def runs(self, first: bytes | None = None, last: bytes | None = None) -> Iterator[UnitRun | MalformedEntry]:
        """Yield the table of units as arrays, from the key `first` to the key `last`, both included."""
        bounds = require_binding(self._folder).ReadOptions()
        if last is not None:
            # RocksDB's upper bound is exclusive.
            bounds.set_iterate_upper_bound(last + b"\0")
        with rocksdb_copy.damage_of(self._folder, CONTENT):
            yield from runs_of(self._families[UNITS].items(from_key=first, read_opt=bounds))

    def entries(self, first: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key and value of the table of units, or those from the key `first` on."""
        with rocksdb_copy.damage_of(self._folder, CONTENT):
            yield from self._families[UNITS].items(from_key=first)

    def offset_entries(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key and value of the offset table."""
        with rocksdb_copy.damage_of(self._folder, CONTENT):
            yield from self._families[OFFSETS].items()

    def unit(self, queue: QueueKey, queue_offset: int) -> BatchUnit | None:
        """Return the unit of one queue offset; None at a hole."""
        with rocksdb_copy.damage_of(self._folder, CONTENT):
            value = self._families[UNITS].get(unit_key(*queue, queue_offset)) if queue_offset >= 0 else None
        if value is None or len(value) != VALUE.size:
            return None
        log_offset, size, tags_code, store_timestamp_ms = VALUE.unpack(value)
        return BatchUnit(log_offset, size, tags_code, store_timestamp_ms, queue_offset, 1)

    def extent(self, queue: QueueKey, min_log_offset: int) -> tuple[int, int, int, int]:
        """Return first and next queue offset, and log offset and end of the newest record.

        The first queue offset is found as in a broker.
        """
        newest = self.newest[queue]
        low = first_offset(
            self.oldest.get(queue), newest, min_log_offset, lambda queue_offset: self.unit(queue, queue_offset)
        )
        last = self.unit(queue, newest.queue_offset)
        end = newest.log_offset + (last.size if last is not None else 0)
        return low, newest.queue_offset + 1, newest.log_offset, end


def first_offset(oldest: Place | None, newest: Place, min_log_offset: int, find: FindUnit) -> int:
    """Return the first queue offset of a queue, found as in a broker.

    oldest, newest  the offset table's entries of the queue
    """
    if oldest is not None and oldest.log_offset >= min_log_offset:
        return oldest.queue_offset
    if newest.log_offset < min_log_offset:
        return newest.queue_offset + 1
    low = oldest.queue_offset if oldest is not None else 0
    found = search(low, newest.queue_offset, find, lambda unit: unit.log_offset >= min_log_offset)
    return found if found is not None else low


def search(low: int, high: int, find: FindUnit, is_right: Callable[[BatchUnit], bool]) -> int | None:
    """Return the lowest matching queue offset by binary search; at a hole the search goes right."""
    found = None
    while low <= high:
        middle = (low + high) // 2
        unit = find(middle)
        if unit is None or not is_right(unit):
            low = middle + 1
        else:
            found, high = middle, middle - 1
    return found


def require_binding(folder: Path) -> ModuleType:
    """Return the package rocksdict; BadRequest with installation advice if it is missing."""
    return rocksdb_copy.require_binding(folder, CONTENT)


def open_database(folder: Path, scratch: Path, fs: Filesystem) -> QueueDatabase:
    """Open a copy of the RocksDB in `folder`, made in `scratch`.

    Raises BadRequest without the package rocksdict, DamagedFile if RocksDB does not open the copy, StoreIOError.
    """
    families = rocksdb_copy.open_copy(folder, scratch, fs, CONTENT, (UNITS, OFFSETS))
    with rocksdb_copy.damage_of(folder, CONTENT):
        return QueueDatabase(families, folder)
