"""Compare index entries with the keys of the records that they point to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from store.files.readable import Salvaged
from store.files.store_reader import StoreReader
from store.formats.derived import entries_of
from store.formats.index_page import ENTRY_SIZE, HEADER_SIZE, MAX_TIME_DIFF_SECONDS, SLOT_SIZE
from store.formats.run import Int64Array, Run
from store.formats.sets import distinct, is_in
from store.structures.consumequeue.compare import split_by_start
from store.structures.findings import INDEX_ENTRY_NOWHERE, INDEX_TIME, MISSING_INDEX_ENTRY, Finding
from store.structures.index.chains import unnamed_entries
from store.structures.index.expect import Entries, are_of_tags
from store.structures.index.rising import RisingOffsets
from store.structures.index.survey import IndexFile

NO_KEY = "whose record has no such key"


class EntryFile:
    """An index file that returns its entries by log offset."""

    def __init__(self, files: StoreReader, file: IndexFile) -> None:
        self.file = file
        self.name = files.name_of(file.path)
        self._at = HEADER_SIZE + SLOT_SIZE * file.slot_count + ENTRY_SIZE
        # In a file with rising log offsets, only the requested entries are read.
        self._stretch = files.map(file.path)
        found = Salvaged(self._stretch.buffer) if file.rises else self._stretch.salvage()
        self.entries = entries_of(found.buffer, file.slot_count, file.count)[1:]
        self._data, self._slot_count = found.buffer, file.slot_count
        self._unreadable = [*found.items(self._at, ENTRY_SIZE)]
        self._rising = RisingOffsets(self.entries["log_offset"], self._require)

    def between(self, low: int, high: int) -> tuple[Int64Array, np.ndarray]:
        """Return numbers and entries with low <= log offset < high."""
        if self.file.rises:
            first, behind = self._rising.row_of(low), self._rising.row_of(high)
            self._require(first, behind)
            return np.arange(first + 1, behind + 1), self.entries[first:behind].copy()
        column = self.entries["log_offset"]
        inside = (column >= low) & (column < high)
        for first, behind in self._unreadable:
            inside[first:behind] = False
        rows = np.flatnonzero(inside)
        return rows + 1, self.entries[rows]

    def unnamed(self) -> Int64Array:
        """Return the numbers of entries that are in no chain. StoreIOError for an unreadable page."""
        if self.file.is_chained:
            return np.empty(0, np.int64)
        self._stretch.require(0, self._at + ENTRY_SIZE * len(self.entries))
        return unnamed_entries(self.entries, np.frombuffer(self._data, ">i4", self._slot_count, HEADER_SIZE))

    def _require(self, first: int, behind: int) -> None:
        self._stretch.require(self._at + ENTRY_SIZE * first, self._at + ENTRY_SIZE * behind)


def index_differences(
    segment: str, indexes: Sequence[EntryFile], low: int, high: int, expected: Entries, run: Run | None
) -> Iterator[Finding]:
    """Compare the entries that point to low … high - 1 with the expected entries.

    run  the records of that stretch; None if it has none
    """
    starts = run.log_offsets if run is not None else np.empty(0, np.int64)
    expected_codes = _codes(expected.log_offset, expected.key_hash, low)
    found = [(file, *file.between(low, high)) for file in indexes]
    seen = [_codes(entries["log_offset"].astype(np.int64), entries["key_hash"], low) for _, _, entries in found]
    for file, numbers, entries in found:
        yield from _wrong_times(file, numbers, entries, expected)
    all_seen = np.concatenate([np.empty(0, np.int64), *seen])
    if np.array_equal(all_seen, expected_codes):
        return
    wanted = distinct(expected_codes)
    for (file, numbers, entries), codes in zip(found, seen, strict=True):
        bad = np.flatnonzero(~is_in(codes, wanted))
        bad = bad if run is None else bad[~_are_of_tags(run, starts, entries[bad])]
        for rows, why in split_by_start(entries["log_offset"].astype(np.int64), bad, starts, NO_KEY):
            detail = f"points to {int(entries['log_offset'][rows[0]])}, {why}"
            number = int(numbers[rows[0]])
            yield Finding(INDEX_ENTRY_NOWHERE, file.name, number, count=len(rows), detail=detail)
    missing = wanted[~is_in(wanted, all_seen)]
    if len(missing):
        where = int(missing[0] >> 32) + low
        detail = "keys of this record are in no index file"
        yield Finding(MISSING_INDEX_ENTRY, segment, where, count=len(missing), detail=detail)


def _are_of_tags(run: Run, starts: Int64Array, entries: np.ndarray) -> npt.NDArray[np.bool_]:
    """Mark the entries whose hash is that of their record's tags."""
    targets = entries["log_offset"].astype(np.int64)
    known = np.flatnonzero(is_in(targets, starts))
    found = np.zeros(len(entries), bool)
    rows = np.searchsorted(starts, targets[known])
    found[known] = are_of_tags(run, rows, entries["key_hash"][known].astype(np.int64))
    return found


def _wrong_times(file: EntryFile, numbers: Int64Array, entries: np.ndarray, expected: Entries) -> Iterator[Finding]:
    """Find entries and header fields with another time than their record.

    The first entry is left out: its time difference counts from the previous file's time.
    """
    if not len(expected.log_offset) or not len(entries):
        return
    targets = entries["log_offset"].astype(np.int64)
    if np.array_equal(targets, expected.log_offset):
        at = np.arange(len(targets))
    else:
        at = np.minimum(np.searchsorted(expected.log_offset, targets), len(expected.log_offset) - 1)
    times = expected.store_timestamp_ms[at]
    begin_ms, end_ms = file.file.begin_timestamp_ms, file.file.end_timestamp_ms
    seconds = np.clip((times - begin_ms) // 1000, 0, MAX_TIME_DIFF_SECONDS)
    known = expected.log_offset[at] == targets
    wrong = np.flatnonzero(known & (numbers > 1) & (entries["time_diff"] != seconds) & (begin_ms > 0))
    if len(wrong):
        i = wrong[0]
        detail = f"{int(entries['time_diff'][i])} s after the begin time, the record makes it {int(seconds[i])}"
        yield Finding(INDEX_TIME, file.name, int(numbers[i]), count=len(wrong), detail=detail)
    for number, header_ms, word in ((1, begin_ms, "begin"), (file.file.count - 1, end_ms, "end")):
        for i in np.flatnonzero(known & (numbers == number) & (times != header_ms)):
            detail = f"the header's {word} time is {header_ms} ms, the record of entry {number} has {int(times[i])} ms"
            yield Finding(INDEX_TIME, file.name, 0, detail=detail)


def _codes(log_offsets: Int64Array, hashes: np.ndarray, low: int) -> Int64Array:
    """Return log offset, counted from `low`, and hash of each entry as one number."""
    return np.asarray(((log_offsets - low) << 32) | (hashes.astype(np.int64) & 0xFFFFFFFF))
