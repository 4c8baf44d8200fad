"""IndexView: a read-only store's index; keys missing from its files come from a database or the log.

    log     |----------- file 1 -----------|   lost   |------ file 3 ------|  not indexed yet  |
            begin_log_offset ... end_log_offset

A database with an index covers log that no file covers. Keys of other log, and a key without a hit, are read from the
log. It is read in pieces as long as index files, so that a query follows the same rules. After a crash a file is used
only if its header, slots and entries agree. While a writer adds to a file, it is read as of the view's opening: later
entries are past the view's end of the log.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from store.config import StoreConfig
from store.errors import StoreError, StoreIOError
from store.files.filesystem import Filesystem
from store.formats.derived import entries_of
from store.formats.index_page import HEADER_SIZE, IndexHeader, decode_header, index_file_size, index_key
from store.formats.java import key_hash
from store.formats.run import Int64Array, Run, Stretch
from store.formats.wording import amount_is
from store.layout import StoreLayout, parse_index_file_name
from store.structures.commitlog.resync import runs_between
from store.structures.commitlog.scan import ScanRules, Segment
from store.structures.index.index_file import IndexFile
from store.structures.index.index_service import IndexedLog, IndexService, IndexSource, QueryOffsets
from store.structures.index.keys import KeyHasher
from store.structures.registry import names_of, rooms_with

_KEPT_PIECES = 256
_SECOND_MS = 1000
_ALL = sys.maxsize


class IndexView(IndexService):
    """The index files of a log whose end is known."""

    def __init__(
        self,
        layout: StoreLayout,
        config: StoreConfig,
        fs: Filesystem,
        clock: Callable[[], int],
        note: Callable[[str], None],
        *,
        with_tags: bool = False,
    ) -> None:
        super().__init__(layout, config, fs, writable=False, clock=clock, with_tags=with_tags)
        self._note = note
        self._order: list[IndexFile | _Uncovered] = []
        self._parts: list[IndexSource | _Uncovered] | None = None
        self._layout = layout
        self._pieces: dict[tuple[Stretch, int], list[LogKeys]] = {}
        self._piece_lock = threading.Lock()

    def load(self) -> None:
        """Open the files of the right size; keys of other files are read from the log."""
        size = index_file_size(self._slot_count, self._entry_count)
        for entry in self._fs.list_folder(self._folder):
            if not entry.is_file or parse_index_file_name(entry.path.name) is None or entry.size < HEADER_SIZE:
                continue
            if entry.size == size:
                self._take_in(entry.path)
            else:
                self._note(f"left out: {entry.path}: the file has {entry.size} bytes instead of {size}")

    def _take_in(self, path: Path) -> None:
        file = self._open(path)
        try:
            file.hold()
        except StoreIOError as error:
            self._note(f"left out: {error}")
        else:
            self.files.append(file)

    def show(self, segments: Sequence[Segment], log: Stretch, rules: ScanRules, *, verify: bool, indexed: bool) -> None:
        """Set the log of the index.

        verify   leave out files that a crash left incomplete
        indexed  False if the broker's settings turn the index off: the log is not read for keys
        """
        self._segments, self._log, self._rules = segments, log, rules
        if verify:
            self.files = [file for file in self.files if self._is_whole(file)]
        self.files = [file for file in self.files if self._has_readable_ends(file)]
        self._order, self._parts = list(self._covering()) if indexed else [*self.files], None

    def query(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> QueryOffsets:
        """Query as IndexService does; keys of an unreadable file are read from the log."""
        while True:
            try:
                found = super().query(topic, key, max_count, begin_ms, end_ms)
                if not found.log_offsets and self._indexed_log is not None:
                    name = index_key(topic, key)
                    found = self._ask(self._sources_of(self._order, name), name, max_count, begin_ms, end_ms)
                return found
            except StoreIOError as error:
                kept = [file for file in self.files if file.path != error.file]
                if len(kept) == len(self.files):
                    raise
                self._note(f"left out: {error}")
                self.files = kept
                self._order, self._parts = list(self._covering()), None

    def sources(self, key: str) -> Sequence[IndexSource]:
        if self._parts is None:
            self._parts = [one for part in self._order for one in self._divided(part)]
        return self._sources_of(self._parts, key)

    def _sources_of(self, parts: Sequence[IndexSource | _Uncovered], key: str) -> list[IndexSource]:
        wanted = key_hash(key)
        found: list[IndexSource] = []
        for part in parts:
            found += self._keys_of(part, wanted) if isinstance(part, _Uncovered) else [part]
        return found

    @cached_property
    def _indexed_log(self) -> IndexedLog | None:
        """The index in a database of the store; None without one, and if files cover the whole log."""
        if not any(isinstance(part, _Uncovered) for part in self._order):
            return None
        try:
            rooms = rooms_with(names_of(self._layout, self._fs), "query", "indexed_log")
            return next((one for room in rooms if (one := room.indexed_log(self._layout, self._fs)) is not None), None)
        except StoreError as error:
            self._note(f"{error}; keys are read from the log")
            return None

    def _divided(self, part: IndexFile | _Uncovered) -> Iterator[IndexSource | _Uncovered]:
        """Divide a stretch without a file into the database's part and the rest."""
        indexed = self._indexed_log
        if indexed is None or not isinstance(part, _Uncovered):
            yield part
            return
        (start, stop), known = part.stretch, part.known
        first, last = max(start + bool(known), indexed.first), min(stop - 1, indexed.last)
        if first > last:
            yield part
            return
        if start < first:
            yield _Uncovered(Stretch(start, first), known)
        self._note(f"keys of log offsets {first} to {last} are looked up in {indexed.path.name}")
        yield indexed.within(first, last)
        if last < stop - 1:
            yield _Uncovered(Stretch(last, stop), _ALL, part.later)

    def _covering(self) -> Iterator[IndexFile | _Uncovered]:
        """Yield the files, oldest first, with the uncovered stretches of log between them."""
        at, known = self._log.start, 0
        for file in self.files:
            header = file.header
            if header.index_count > 1:
                if header.begin_log_offset > at:
                    # The file may begin within a record: the record's first keys are in the file before.
                    yield _Uncovered(Stretch(at, header.begin_log_offset + 1), known, _entries_of_first_record(file))
                if header.end_log_offset >= at:
                    at, known = header.end_log_offset, _entries_of_last_record(file)
            yield file
        if at < self._log.stop:
            yield _Uncovered(Stretch(at, self._log.stop), known)

    def _has_readable_ends(self, file: IndexFile) -> bool:
        try:
            _entries_of_first_record(file)
            _entries_of_last_record(file)
            if not file.lacks_newest:
                return True
            self._note(f"left out: {file.path}: its slots do not lead to its newest key")
        except StoreIOError as error:
            self._note(f"left out: {error}")
        return False

    def _is_whole(self, file: IndexFile) -> bool:
        if is_whole(file):
            return True
        self._note(f"left out: {file.path}: not all of it was on disk at the crash")
        return False

    def _keys_of(self, part: _Uncovered, wanted: int) -> list[LogKeys]:
        with self._piece_lock:
            found = self._pieces.get((part.stretch, wanted))
            if found is None:
                found = self._read_keys(part, wanted)
                if len(self._pieces) >= _KEPT_PIECES:
                    self._pieces.clear()
                self._pieces[part.stretch, wanted] = found
            return found

    def _read_keys(self, part: _Uncovered, wanted: int) -> list[LogKeys]:
        pieces: list[LogKeys] = []
        capacity, count, known = self._entry_count - 1, 0, part.known
        hasher = KeyHasher(with_tags=self.with_tags)
        for run in runs_between(self._segments, *part.stretch, rules=self._rules):
            for keys in hasher.keys_of(run):
                if known:
                    # Keys of the record in which the file before ends.
                    at_start = run.columns.log_offset[keys.records] == part.stretch.start
                    known = min(known, int(np.count_nonzero(at_start)))
                at_end = run.columns.log_offset[keys.records] == part.stretch.stop - 1
                stop = len(keys.hashes) - min(part.later, int(np.count_nonzero(at_end)))
                hashes, records, known = keys.hashes[known:stop], keys.records[known:stop], 0
                for first in _cuts(count, len(hashes), capacity):
                    until = min(len(hashes), first + capacity - (count + first) % capacity)
                    if (count + first) % capacity == 0:
                        pieces.append(LogKeys.begin(self._folder, run, int(records[first])))
                    pieces[-1].take(run, hashes[first:until], records[first:until], wanted)
                count += len(hashes)
        # A backup has no index files, and lacks none.
        if count and not self._fs.holds_log_alone:
            self._note(f"{amount_is(count, 'key')} in no index file, and read from the log")
        return pieces


class _Uncovered(NamedTuple):
    """A stretch of log without an index file.

    known  keys of the stretch's first record that are in the file before
    later  keys of the stretch's last record that are in the file after
    """

    stretch: Stretch
    known: int
    later: int = 0


@dataclass(slots=True)
class LogKeys:
    """The keys of one hash in a stretch of log, with the header that an index file of them would have."""

    path: Path
    header: IndexHeader
    log_offsets: list[int]
    times_ms: list[int]

    @classmethod
    def begin(cls, folder: Path, run: Run, row: int) -> LogKeys:
        time_ms, at = int(run.columns.store_timestamp_ms[row]), int(run.columns.log_offset[row])
        return cls(folder / f"(log from {at})", IndexHeader(time_ms, time_ms, at, at, 0, 1), [], [])

    def take(self, run: Run, hashes: Int64Array, records: Int64Array, wanted: int) -> None:
        """Add a run's keys to the header's count, and those of the wanted hash to the lists."""
        columns, last = run.columns, records[-1]
        self.header = self.header._replace(
            end_timestamp_ms=int(columns.store_timestamp_ms[last]),
            end_log_offset=int(columns.log_offset[last]),
            index_count=self.header.index_count + len(hashes),
        )
        rows = records[hashes == wanted]
        self.log_offsets += columns.log_offset[rows].tolist()
        self.times_ms += columns.store_timestamp_ms[rows].tolist()

    def matches_time(self, begin_ms: int, end_ms: int) -> bool:
        return self.header.matches_time(begin_ms, end_ms)

    def select(self, key: str, max_count: int, begin_ms: int, end_ms: int, found: list[int]) -> None:
        """Append log offsets to `found`, newest first, until it has `max_count`."""
        first_ms = self.header.begin_timestamp_ms
        for log_offset, stored_ms in zip(reversed(self.log_offsets), reversed(self.times_ms), strict=True):
            if len(found) >= max_count:
                return
            # An index file holds whole seconds since its first message.
            time_ms = first_ms + (stored_ms - first_ms) // _SECOND_MS * _SECOND_MS
            if begin_ms <= time_ms <= end_ms:
                found.append(log_offset)
            if time_ms < begin_ms:
                return


def is_whole(file: IndexFile) -> bool:
    """Return whether header, slots and entries of a file agree: no page of it was lost in a crash."""
    header = decode_header(file.buffer)
    count = header.index_count
    if count <= 1:
        return True
    if not file.is_readable():
        return False
    slots = np.frombuffer(file.buffer, ">i4", file.slot_count, HEADER_SIZE)
    entries = entries_of(file.buffer, file.slot_count, count)[1:]
    if len(entries) != count - 1 or np.count_nonzero(slots) != header.hash_slot_count or slots.max() >= count:
        return False
    offsets = entries["log_offset"].astype(np.int64)
    ends = (offsets[0], offsets[-1]) == (header.begin_log_offset, header.end_log_offset)
    is_ordered = bool((np.diff(offsets) >= 0).all()) and bool((entries["key_hash"] >= 0).all())
    return bool(ends) and is_ordered and bool((entries["previous"] < np.arange(1, count)).all())


def _entries_of_first_record(file: IndexFile) -> int:
    """Return the number of the file's oldest entries that belong to its first record."""
    count = min(max(1, file.header.index_count), file.entry_count, _KEPT_PIECES)
    file.require(file.position_of(1), file.position_of(count) - file.position_of(1))
    entries = entries_of(file.buffer, file.slot_count, count)[1:]
    other = np.flatnonzero(entries["log_offset"] != file.header.begin_log_offset)
    return int(other[0]) if len(other) else len(entries)


def _entries_of_last_record(file: IndexFile) -> int:
    """Return the number of the file's newest entries that belong to its last record."""
    header = file.header
    counts = header.index_count, header.index_count - _KEPT_PIECES
    last, first = (min(max(1, count), file.entry_count) for count in counts)
    file.require(file.position_of(first), file.position_of(last) - file.position_of(first))
    entries = entries_of(file.buffer, file.slot_count, header.index_count)[1:][-_KEPT_PIECES:]
    other = np.flatnonzero(entries["log_offset"][::-1] != header.end_log_offset)
    return int(other[0]) if len(other) else len(entries)


def _cuts(count: int, added: int, capacity: int) -> range | list[int]:
    """Return the starts, 0 first, of the pieces of `capacity` keys in `added` keys after `count` others."""
    first_full = (capacity - count % capacity) % capacity
    return [0, *range(first_full or capacity, added, capacity)] if added else []
