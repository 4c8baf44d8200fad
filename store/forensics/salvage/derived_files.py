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

from store.disk.store_reader import StoredFile, StoreReader
from store.errors import StoreError
from store.formats.derived import entries_of, units_of
from store.formats.index_page import HEADER_SIZE, decode_header
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array
from store.index.geometry import geometry_of

STRETCH_ITEMS = 1 << 19
"""About so many units and entries are held at a time."""
_PIECE_ROWS = 1 << 17
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
class _NamingFile:
    """A file, and the lowest and highest log offset that it names; `queue` is -1 for an index file.

    rises  whether no unit or entry names a lower log offset than the one before
    """

    file: StoredFile
    queue: int
    count: int = 0
    low: int = 0
    high: int = LOG_END
    rises: bool = False


class DerivedFiles:
    """The files of a store's queues and index."""

    def __init__(self, reader: StoreReader | None) -> None:
        """Looks at all files; without a reader there are none."""
        self._reader = reader
        self.queues = {queue: number for number, queue in enumerate(reader.queues() if reader is not None else ())}
        self._files = list(self._look(reader)) if reader is not None else []
        segments = reader.segments() if reader is not None else []
        log_size = segments[-1].number + segments[-1].size - segments[0].number if segments else 0
        count = sum(one.count for one in self._files)
        self._length = log_size * STRETCH_ITEMS // count + 1 if count > STRETCH_ITEMS else LOG_END

    def stretch(self, start: int, stop: int) -> Stretch:
        """Reads a stretch of the log from `start`, at least up to `stop`; of a small store the whole log."""
        if self._length == LOG_END:
            start, stop = 0, LOG_END
        stop = max(stop, start + self._length)
        units = [self._units(one, start, stop) for one in self._naming(start, stop) if one.queue >= 0]
        entries = [self._entries(one, start, stop) for one in self._naming(start, stop) if one.queue < 0]
        return Stretch(start, stop, _by_log_offset(units, _UNIT), _by_log_offset(entries, _ENTRY))

    def units_before(self, log_offset: int) -> int:
        """Counts the units that name records in front of a log offset."""
        return sum(len(self._units(one, 0, log_offset)) for one in self._naming(0, log_offset) if one.queue >= 0)

    def units_from(self, log_offset: int) -> tuple[Int64Array, Int64Array]:
        """Starts and ends of the records that units name at and behind a log offset, by start."""
        named = [self._units(one, log_offset, LOG_END) for one in self._naming(log_offset, LOG_END) if one.queue >= 0]
        units = _by_log_offset(named, _UNIT)
        return units["log_offset"], units["log_offset"] + units["size"]

    def _look(self, reader: StoreReader) -> Iterator[_NamingFile]:
        files = [(file, number) for queue, number in self.queues.items() for file in reader.queue_files(*queue)]
        for file, number in [*files, *((file, -1) for file in reader.index_files())]:
            offsets = self._items(_NamingFile(file, number))["log_offset"]
            count, low, high, rises = 0, LOG_END, 0, True
            for rows in _pieces(offsets, 0, LOG_END):
                named = offsets[rows].astype(np.int64)
                rises = rises and int(named[0]) >= high and bool((np.diff(named) >= 0).all())
                count, low, high = count + len(rows), min(low, int(named.min())), max(high, int(named.max()))
            if count:
                yield _NamingFile(file, number, count, low, high, rises and count == len(offsets))

    def _naming(self, start: int, stop: int) -> Iterator[_NamingFile]:
        """The files that name a log offset in [start, stop)."""
        return (one for one in self._files if one.low < stop and start <= one.high)

    def _units(self, one: _NamingFile, start: int, stop: int) -> np.ndarray:
        units = self._items(one)
        rows = _rows(one, units["log_offset"], start, stop)
        rows = rows[units["size"][rows] > 0]
        found = np.empty(len(rows), _UNIT)
        found["queue"], found["queue_offset"] = one.queue, rows + one.file.number // UNIT_SIZE
        for name in ("log_offset", "tags_code", "size"):
            found[name] = units[name][rows]
        return found

    def _entries(self, one: _NamingFile, start: int, stop: int) -> np.ndarray:
        entries = self._items(one)
        rows = _rows(one, entries["log_offset"], start, stop)
        found = np.empty(len(rows), _ENTRY)
        found["log_offset"], found["key_hash"] = entries["log_offset"][rows], entries["key_hash"][rows]
        return found

    def _items(self, one: _NamingFile) -> np.ndarray:
        """All units or entries of a file, over its bytes."""
        assert self._reader is not None
        if one.queue >= 0:
            try:
                units = units_of(self._reader.read_written(one.file.path, one.file.size))
            except StoreError:
                return units_of(b"")
            written = np.flatnonzero(units["size"] > 0)
            return units[: int(written[-1]) + 1 if len(written) else 0]
        salvaged = self._reader.salvage(one.file.path)
        geometry = geometry_of(salvaged.buffer) if not salvaged.unreadable else None
        if geometry is None:
            return entries_of(bytes(HEADER_SIZE), 0, 0)
        header = decode_header(salvaged.buffer[:HEADER_SIZE])
        return entries_of(salvaged.buffer, geometry.slot_count, header.index_count)[1:]


def _pieces(offsets: np.ndarray, start: int, stop: int) -> Iterator[Int64Array]:
    """The rows whose offsets are in [start, stop), so many at a time that copies of them are small."""
    for at in range(0, len(offsets), _PIECE_ROWS):
        piece = offsets[at : at + _PIECE_ROWS].astype(np.int64)
        rows = np.flatnonzero((piece >= start) & (piece < stop))
        if len(rows):
            yield rows + at


def _rows(one: _NamingFile, offsets: np.ndarray, start: int, stop: int) -> Int64Array:
    """The rows of a file that name log offsets in [start, stop)."""
    if one.rises:
        first = bisect_left(offsets, start)
        return np.arange(first, bisect_left(offsets, stop, first))
    return np.concatenate([np.empty(0, np.int64), *_pieces(offsets, start, stop)])


def _by_log_offset(pieces: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
    every = np.concatenate(pieces) if pieces else np.empty(0, dtype)
    return every[np.argsort(every["log_offset"], kind="stable")]
