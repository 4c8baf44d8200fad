"""Check the message database against the log, in both directions (5.4 and later).

    the database       opens; its keys and values are well formed, and nothing points past the log's end
    database → log     every entry matches the record that it points to
    log → database     every record between the first and the last indexed one has all its entries

Entries of expired records, delivered timers and given-up half messages are harmless. So are missing entries that a
killed broker had not flushed.
Imported only if a store has such a database.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from store.errors import BadRequest, DamagedFile, StoreIOError
from store.files.scratch import Scratch
from store.files.store_reader import StoreReader
from store.formats.index_page import HEADER_SIZE, decode_header
from store.formats.run import Run
from store.formats.topics import TIMER_TOPIC
from store.setting_values import MAX_LONG
from store.structures.checked import CheckedStore
from store.structures.commitlog.end import END_OF_LOG
from store.structures.commitlog.resync import read_log
from store.structures.findings import LOST_INDEX, MISSING_INDEX_ENTRY, Finding, group_findings, kind
from store.structures.messagedb.database import FOLDER, MessageDatabase, may_hold_entries, open_database
from store.structures.messagedb.expect import OpenHalves, records_of
from store.structures.messagedb.keys import (
    HOUR_MS,
    INDEX,
    LAST_OFFSET,
    SCAN_OFFSET,
    TIMELINE,
    TIMER,
    TRANS,
    HalfEntry,
    IndexEntry,
    TimerEntry,
)

DATABASE_STATE = kind(
    "message-database", "the RocksDB with index, timers and half messages can't be read, or is ahead of the log"
)
ENTRY_NOWHERE = kind(
    "message-entry-nowhere", "an entry of the message database is of no record at the place that it names"
)
MISSING_ENTRY = kind(
    "missing-message-entry", "a key has no entry in the message database, which has later ones or lost its index"
)
_DELIVERED_MS = HOUR_MS // 2
"""Delivered timers are deleted this long after the timeline has passed them."""


def owned_by(store: CheckedStore) -> Callable[[Finding], bool]:
    """Return a filter for findings on files that a broker does not use beside this database."""
    owned: set[str] = set()
    alone_from = MAX_LONG
    with Scratch() as scratch, suppress(BadRequest, DamagedFile, StoreIOError):
        if may_hold_entries(store.layout, store.fs):
            database = open_database(store.layout.root / FOLDER, scratch.folder, store.fs)
            owned |= {LOST_INDEX} if LAST_OFFSET in database.longs[INDEX] else set()
            alone_from = _indexed_alone_from(store, database)
    return lambda finding: (
        finding.kind in owned or (finding.kind == MISSING_INDEX_ENTRY and finding.offset >= alone_from)
    )


def _indexed_alone_from(store: CheckedStore, database: MessageDatabase) -> int:
    """Return the first log offset with keys in the database alone; MAX_LONG if the files go on.

    A broker with indexFileWriteEnable=false leaves the files as they were, and its database begins past their end. If
    the files lost entries that a broker with both wrote, the database begins before their end.
    """
    heads = (store.files.read(one.path, 0, HEADER_SIZE) for one in store.files.index_files() if one.size >= HEADER_SIZE)
    end = max((decode_header(bytes(head)).end_log_offset for head in heads), default=MAX_LONG)
    first = database.oldest_indexed() if end < database.long(INDEX, LAST_OFFSET) else MAX_LONG
    return first if first > end else MAX_LONG


def check(store: CheckedStore) -> Iterator[Finding]:
    """Yield the findings of the store's message database.

    If the package rocksdict is missing, one finding reports that.
    """
    files, folder, is_filled = store.files, store.layout.root / FOLDER, may_hold_entries(store.layout, store.fs)
    is_indexed = bool(store.config.index_rocks_db_enable) and not _may_be_in_memory(store)
    if not (is_filled or is_indexed):
        return
    with Scratch() as scratch:
        try:
            database = open_database(folder, scratch.folder, store.fs) if is_filled else MessageDatabase.empty(folder)
            work = _Check(files.name_of(FOLDER), database, is_indexed)
            yield from group_findings(work.of_database())
            yield from group_findings(work.of_log(files, store.horizon))
        except (BadRequest, DamagedFile) as error:
            advice = f"; {error.hint}" if isinstance(error, BadRequest) else ""
            yield Finding(DATABASE_STATE, files.name_of(FOLDER), 0, detail=f"{error.reason}{advice}")


def _may_be_in_memory(store: CheckedStore) -> bool:
    """Return whether a broker that was killed, or still runs, may have had all entries in memory."""
    return store.fs.exists(store.layout.abort) and store.fs.is_folder(store.layout.root / FOLDER)


@dataclass(slots=True)
class _Check:
    """One database against its log; the scan removes each entry at its record.

    is_indexed  the index has all records, even if it has no entry at all
    """

    place: str
    database: MessageDatabase
    is_indexed: bool = False
    index: dict[int, set[IndexEntry]] = field(default_factory=lambda: defaultdict(set))
    timers: dict[int, list[TimerEntry]] = field(default_factory=lambda: defaultdict(list))
    halves: dict[int, HalfEntry] = field(default_factory=dict)

    def of_database(self) -> Iterator[Finding]:
        """Yield the faults of keys, values and families; collect the entries."""
        delivered_ms = self.database.long(TIMER, TIMELINE) - _DELIVERED_MS
        for entry in self.database.index():
            if isinstance(entry, bytes):
                yield self._state(0, "a key or a value is malformed")
            else:
                self.index[entry.log_offset].add(entry)
        for timer in self.database.timers():
            if isinstance(timer, bytes):
                yield self._state(0, "a key or a value is malformed")
            elif timer.delivery_ms >= delivered_ms:
                self.timers[timer.log_offset].append(timer)
        for half in self.database.halves():
            if isinstance(half, bytes):
                yield self._state(0, "a key or a value is malformed")
            else:
                self.halves[half.log_offset] = half

    def of_log(self, files: StoreReader, horizon: int | None) -> Iterator[Finding]:
        """Scan the log; yield missing entries, and entries that no record explains."""
        start, steps = read_log(files)
        end = start
        last = self.database.long(INDEX, LAST_OFFSET)
        is_lost = self.is_indexed and not last
        indexed = range(min(self.index, default=END_OF_LOG), last + 1)
        indexed = range(END_OF_LOG) if is_lost else indexed
        opened, next_timer = OpenHalves(), 0
        for step in steps:
            if not isinstance(step, Run) or (horizon is not None and step.start >= horizon):
                continue
            end = step.end
            for record in records_of(step):
                opened.take(record)
                if record.topic == TIMER_TOPIC:
                    next_timer = max(next_timer, record.queue_offset + 1)
                found, expected = self.index.pop(record.log_offset, set()), set(record.index_entries())
                if missing := expected - found if record.log_offset in indexed else set():
                    detail = f"{len(missing)} of the record at log offset {record.log_offset}"
                    yield Finding(MISSING_ENTRY, self.place, record.log_offset, record.topic, detail=detail)
                yield from (self._nowhere(one) for one in found - expected)
                timers = self.timers.pop(record.log_offset, [])
                yield from (self._nowhere(one) for one in timers if one != record.timer())
        for entry in self._left(opened):
            # Expired records are deleted before their entries.
            if start <= entry.log_offset < end:
                yield self._nowhere(entry)
            elif entry.log_offset >= end and horizon is None:
                yield self._state(entry.log_offset, f"an entry points to {entry.log_offset}, the log ends at {end}")
        if horizon is None:
            yield from self._of_longs(end, next_timer)

    def _left(self, opened: OpenHalves) -> Iterator[IndexEntry | TimerEntry | HalfEntry]:
        """Yield the entries without a matching record."""
        for keys in self.index.values():
            yield from keys
        for timers in self.timers.values():
            yield from timers
        ends = [end for family in (INDEX, TRANS) if (end := self.database.long(family, LAST_OFFSET))]
        # The next start removes half messages whose op record is past the least of these.
        least = min(ends, default=END_OF_LOG)
        removed = {half for half, ended in opened.ended_at.items() if ended > least}
        for half in self.halves.values():
            if opened.halves.get(half.log_offset) != half._replace(checks=0) and half.log_offset not in removed:
                yield half

    def _of_longs(self, end: int, next_timer: int) -> Iterator[Finding]:
        """Yield a finding for each stored offset beyond the log's end or the queue's end."""
        for family in (INDEX, TRANS):
            last = self.database.long(family, LAST_OFFSET)
            if last and last >= end:
                yield self._state(last, f"{LAST_OFFSET.decode()} of {family} is {last}, the log ends at {end}")
        scanned = self.database.long(TIMER, SCAN_OFFSET)
        if next_timer and scanned > next_timer:
            yield self._state(scanned, f"{SCAN_OFFSET.decode()} is {scanned}, the queue of timers ends at {next_timer}")

    def _nowhere(self, entry: IndexEntry | TimerEntry | HalfEntry) -> Finding:
        what = entry.topic if not isinstance(entry, TimerEntry) else TIMER_TOPIC
        detail = f"{entry.unique_key} is not the record at log offset {entry.log_offset}"
        return Finding(ENTRY_NOWHERE, self.place, entry.log_offset, what, detail=detail)

    def _state(self, offset: int, detail: str) -> Finding:
        return Finding(DATABASE_STATE, self.place, offset, detail=detail)
