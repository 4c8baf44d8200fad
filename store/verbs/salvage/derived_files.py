"""Queue units and index entries of a store, read for one stretch of the log at a time.

A first pass counts each file's units and entries, and notes their lowest and highest log offset. A stretch reads only
the files with offsets in it, so that memory does not grow with the store. An unreadable file has no units or entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from store.errors import StoreError
from store.files import readable
from store.files.store_reader import StoredFile, StoreReader
from store.formats.derived import units_of
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array
from store.formats.sets import is_in
from store.structures.commitlog.end import END_OF_LOG
from store.structures.index.compare import EntryFile
from store.structures.index.rising import RisingOffsets
from store.structures.index.survey import IndexFile, survey_index

STRETCH_ITEMS = 1 << 19
"""The approximate number of units and entries in memory at a time."""

Rows = slice | np.ndarray


class NamedUnits(NamedTuple):
    """Columns of queue units by log offset; `queue` is the queue's number in DerivedFiles.queues."""

    log_offset: Int64Array
    queue_offset: Int64Array
    tags_code: Int64Array
    queue: Int64Array
    size: Int64Array

    def rows(self, rows: Rows) -> NamedUnits:
        return NamedUnits(*(column[rows] for column in self))


class NamedEntries(NamedTuple):
    """Columns of index entries by log offset."""

    log_offset: Int64Array
    key_hash: Int64Array


@dataclass(frozen=True, slots=True)
class Stretch:
    """Units and entries that point to log offsets in [start, stop)."""

    start: int
    stop: int
    units: NamedUnits
    entries: NamedEntries


_NO_ROWS = np.empty(0, np.int64)
_NO_UNITS = NamedUnits(*[_NO_ROWS] * 5)
_NO_ENTRIES = NamedEntries(*[_NO_ROWS] * 2)
NOTHING = Stretch(0, 0, _NO_UNITS, _NO_ENTRIES)


@dataclass(frozen=True, slots=True)
class _QueueFile:
    """A queue file, and the lowest and highest log offset in its units.

    rises  whether no unit has a lower log offset than the one before
    """

    file: StoredFile
    queue: int
    count: int
    low: int
    high: int
    rises: bool


class DerivedFiles:
    """The files of a store's queues and index.

    aside  a second thread: work on entries is independent of work on units
    """

    def __init__(self, reader: StoreReader | None) -> None:
        """Examine all files; without a reader there are none."""
        self._reader = reader
        self.aside = ThreadPoolExecutor(1)
        self._found: dict[str, tuple[int, int]] = {}
        """The end of the last search, by queue file (RisingOffsets)."""
        self._unnamed: dict[str, Int64Array] = {}
        self.queues = {queue: number for number, queue in enumerate(reader.queues() if reader is not None else ())}
        indexes = self.aside.submit(_index_files, reader)
        self._units = list(self._look_at_queues(reader)) if reader is not None else []
        self._indexes = indexes.result()
        segments = reader.segments() if reader is not None else []
        log_size = segments[-1].number + segments[-1].size - segments[0].number if segments else 0
        count = sum(one.count for one in self._units) + sum(one.count for one in self._indexes)
        self._length = log_size * STRETCH_ITEMS // count + 1 if count > STRETCH_ITEMS else END_OF_LOG

    def stretch(self, start: int, stop: int) -> Stretch:
        """Read a stretch from `start`, at least up to `stop`; for a small store the whole log."""
        if self._length == END_OF_LOG:
            start, stop = 0, END_OF_LOG
        stop = max(stop, start + self._length)
        entries = self.aside.submit(self._entries_in, start, stop)
        return Stretch(start, stop, self.units_in(start, stop), entries.result())

    def units_before(self, log_offset: int) -> int:
        """Count the units of records before a log offset."""
        named = (one for one in self._units if one.low < log_offset)
        return sum(one.count if one.high < log_offset else len(self._read(one, 0, log_offset).size) for one in named)

    def units_from(self, log_offset: int) -> tuple[Int64Array, Int64Array]:
        """Return starts and ends of the records from a log offset on that have units, by start."""
        units = self.units_in(log_offset, END_OF_LOG)
        return units.log_offset, units.log_offset + units.size

    def _look_at_queues(self, reader: StoreReader) -> Iterator[_QueueFile]:
        files = [(file, number) for queue, number in self.queues.items() for file in reader.queue_files(*queue)]
        for file, number in files:
            written = _written_units(reader, file)
            rows = _named_rows(written, 0, END_OF_LOG)
            named = written["log_offset"][rows].astype(np.int64)
            if len(rows):
                rises = len(rows) == len(written) and bool((np.diff(named) >= 0).all())
                yield _QueueFile(file, number, len(rows), int(named.min()), int(named.max()), rises)

    def units_in(self, start: int, stop: int) -> NamedUnits:
        """Return the units with log offsets in [start, stop)."""
        named = (one for one in self._units if one.low < stop and start <= one.high)
        return NamedUnits(*_by_log_offset([_NO_UNITS, *(self._read(one, start, stop) for one in named)]))

    def _read(self, one: _QueueFile, start: int, stop: int) -> NamedUnits:
        """Return the units of a file with log offsets in [start, stop)."""
        assert self._reader is not None
        if one.rises:
            first, units = self._rising_units(self._reader, one, start, stop)
            rows = np.arange(first, first + len(units))
        else:
            units = _written_units(self._reader, one.file)
            rows = _named_rows(units, start, stop)
            units = units[rows]
        offsets, codes, sizes = (units[name].astype(np.int64) for name in ("log_offset", "tags_code", "size"))
        return NamedUnits(offsets, rows + one.file.number // UNIT_SIZE, codes, np.full(len(rows), one.queue), sizes)

    def _rising_units(self, reader: StoreReader, one: _QueueFile, start: int, stop: int) -> tuple[int, np.ndarray]:
        """Return the row of the first unit with a log offset in [start, stop), and these units.

        No other units are read.
        """
        try:
            data = reader.map(one.file.path, 0, one.count * UNIT_SIZE)
            units = units_of(data.buffer)
            require = partial(_require_units, data)
            rising = RisingOffsets(units["log_offset"], require, self._found.get(one.file.path, (0, 0)))
            first, behind = rising.row_of(start), rising.row_of(stop)
            require(first, behind)
        except StoreError:
            return 0, units_of(b"")
        self._found[one.file.path] = rising.found
        return first, units[first:behind]

    def _entries_in(self, start: int, stop: int) -> NamedEntries:
        pieces = [_NO_ENTRIES]
        for one in self._indexes:
            if self._reader is not None and one.low < stop and start <= one.high:
                file = EntryFile(self._reader, one)
                numbers, entries = file.between(start, stop)
                if not one.is_chained:
                    entries = entries[~is_in(numbers, self._unnamed_in(file))]
                pieces.append(NamedEntries(*(entries[name].astype(np.int64) for name in NamedEntries._fields)))
        return NamedEntries(*_by_log_offset(pieces))

    def _unnamed_in(self, file: EntryFile) -> Int64Array:
        """Return the numbers of entries with a damaged hash: they tell nothing of a record's keys.

        All entries of a file with unreadable pages are so, as its chains can't be followed.
        """
        if file.name not in self._unnamed:
            try:
                self._unnamed[file.name] = file.unnamed()
            except StoreError:
                self._unnamed[file.name] = np.arange(len(file.entries)) + 1
        return self._unnamed[file.name]


def _index_files(reader: StoreReader | None) -> list[IndexFile]:
    if reader is None:
        return []
    found = (one for file in reader.index_files() for one in survey_index(reader, file, {}))
    return [one for one in found if isinstance(one, IndexFile)]


def _require_units(data: readable.Stretch, first: int, behind: int) -> None:
    data.require(first * UNIT_SIZE, behind * UNIT_SIZE)


def _written_units(reader: StoreReader, file: StoredFile) -> np.ndarray:
    """Return the units of a file up to the last written one."""
    try:
        units = units_of(reader.read_written(file.path, file.size))
    except StoreError:
        return units_of(b"")
    written = np.flatnonzero(units["size"] > 0)
    return units[: int(written[-1]) + 1 if len(written) else 0]


def _named_rows(units: np.ndarray, start: int, stop: int) -> Int64Array:
    """Return the rows of the written units with log offsets in [start, stop)."""
    offsets = units["log_offset"].astype(np.int64)
    return np.flatnonzero((units["size"] > 0) & (offsets >= start) & (offsets < stop))


def _by_log_offset(pieces: Sequence[NamedUnits | NamedEntries]) -> Iterator[Int64Array]:
    """Return the columns of all pieces, sorted by the first column, the log offset."""
    columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    offsets = columns[0]
    if (offsets[1:] >= offsets[:-1]).all():
        return iter(columns)
    order = np.argsort(offsets, kind="stable")
    return (column[order] for column in columns)
