"""Queue units and index entries of a store, read for one stretch of the log at a time.

A first look counts the units and entries of each file and notes the lowest and highest log offset that they name. A
stretch reads the files that name offsets in it, so that memory does not grow with the store. A file that can't be read
gives none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from store.checking.entries import EntryFile
from store.checking.survey import IndexFile, survey_index
from store.disk.store_reader import StoredFile, StoreReader
from store.errors import StoreError
from store.formats.derived import units_of
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array

STRETCH_ITEMS = 1 << 19
"""About so many units and entries are held at a time."""
LOG_END = (1 << 63) - 1

_UNIT = np.dtype([("log_offset", "i8"), ("queue_offset", "i8"), ("tags_code", "i8"), ("queue", "i4"), ("size", "i4")])
_ENTRY = np.dtype([("log_offset", "i8"), ("key_hash", "i4")])


@dataclass(frozen=True, slots=True)
class Stretch:
    """Units and entries that name log offsets in [start, stop), by log offset.

    units    with the queue's number in DerivedFiles.queues
    entries  log offset and key hash
    """

    start: int
    stop: int
    units: np.ndarray
    entries: np.ndarray


NOTHING = Stretch(0, 0, np.empty(0, _UNIT), np.empty(0, _ENTRY))


@dataclass(frozen=True, slots=True)
class _QueueFile:
    """A queue file, and the lowest and highest log offset that its units name.

    rises  whether no unit names a lower log offset than the one before
    """

    file: StoredFile
    queue: int
    count: int
    low: int
    high: int
    rises: bool


class DerivedFiles:
    """The files of a store's queues and index."""

    def __init__(self, reader: StoreReader | None) -> None:
        """Looks at all files; without a reader there are none."""
        self._reader = reader
        self.queues = {queue: number for number, queue in enumerate(reader.queues() if reader is not None else ())}
        self._units = list(self._look_at_queues(reader)) if reader is not None else []
        self._indexes = list(_look_at_index(reader)) if reader is not None else []
        segments = reader.segments() if reader is not None else []
        log_size = segments[-1].number + segments[-1].size - segments[0].number if segments else 0
        count = sum(one.count for one in self._units) + sum(one.count for one in self._indexes)
        self._length = log_size * STRETCH_ITEMS // count + 1 if count > STRETCH_ITEMS else LOG_END

    def stretch(self, start: int, stop: int) -> Stretch:
        """Reads a stretch of the log from `start`, at least up to `stop`; of a small store the whole log."""
        if self._length == LOG_END:
            start, stop = 0, LOG_END
        stop = max(stop, start + self._length)
        return Stretch(start, stop, self._units_in(start, stop), self._entries_in(start, stop))

    def units_before(self, log_offset: int) -> int:
        """Counts the units that name records in front of a log offset."""
        named = (one for one in self._units if one.low < log_offset)
        return sum(one.count if one.high < log_offset else len(self._read(one, 0, log_offset)) for one in named)

    def units_from(self, log_offset: int) -> tuple[Int64Array, Int64Array]:
        """Starts and ends of the records that units name at and behind a log offset, by start."""
        units = self._units_in(log_offset, LOG_END)
        return units["log_offset"], units["log_offset"] + units["size"]

    def _look_at_queues(self, reader: StoreReader) -> Iterator[_QueueFile]:
        files = [(file, number) for queue, number in self.queues.items() for file in reader.queue_files(*queue)]
        for file, number in files:
            written = _written_units(reader, file)
            rows = _named_rows(written, 0, LOG_END)
            named = written["log_offset"][rows].astype(np.int64)
            if len(rows):
                rises = len(rows) == len(written) and bool((np.diff(named) >= 0).all())
                yield _QueueFile(file, number, len(rows), int(named.min()), int(named.max()), rises)

    def _units_in(self, start: int, stop: int) -> np.ndarray:
        named = (one for one in self._units if one.low < stop and start <= one.high)
        return _by_log_offset([self._read(one, start, stop) for one in named], _UNIT)

    def _read(self, one: _QueueFile, start: int, stop: int) -> np.ndarray:
        """The units of a file that name log offsets in [start, stop)."""
        assert self._reader is not None
        units = _written_units(self._reader, one.file)
        if one.rises:
            first = bisect_left(units["log_offset"], start)
            rows = np.arange(first, bisect_left(units["log_offset"], stop, first))
        else:
            rows = _named_rows(units, start, stop)
        found = np.empty(len(rows), _UNIT)
        found["queue"], found["queue_offset"] = one.queue, rows + one.file.number // UNIT_SIZE
        for name in ("log_offset", "tags_code", "size"):
            found[name] = units[name][rows]
        return found

    def _entries_in(self, start: int, stop: int) -> np.ndarray:
        pieces = []
        for one in self._indexes:
            if self._reader is not None and one.low < stop and start <= one.high:
                _, entries = EntryFile(self._reader, one).between(start, stop)
                found = np.empty(len(entries), _ENTRY)
                found["log_offset"], found["key_hash"] = entries["log_offset"], entries["key_hash"]
                pieces.append(found)
        return _by_log_offset(pieces, _ENTRY)


def _look_at_index(reader: StoreReader) -> Iterator[IndexFile]:
    for file in reader.index_files():
        yield from (one for one in survey_index(reader, file, {}) if isinstance(one, IndexFile))


def _written_units(reader: StoreReader, file: StoredFile) -> np.ndarray:
    """The units of a file up to the last one that was written."""
    try:
        units = units_of(reader.read_written(file.path, file.size))
    except StoreError:
        return units_of(b"")
    written = np.flatnonzero(units["size"] > 0)
    return units[: int(written[-1]) + 1 if len(written) else 0]


def _named_rows(units: np.ndarray, start: int, stop: int) -> Int64Array:
    """The rows of the written units that name log offsets in [start, stop)."""
    offsets = units["log_offset"].astype(np.int64)
    return np.flatnonzero((units["size"] > 0) & (offsets >= start) & (offsets < stop))


def _by_log_offset(pieces: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
    every = np.concatenate(pieces) if pieces else np.empty(0, dtype)
    return every[np.argsort(every["log_offset"], kind="stable")]
