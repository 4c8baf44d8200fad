"""Bring the message database to the log's end.

    index   keys of truncated records are deleted; last offset and time become those of the newest remaining record,
            and records past an older last offset get their keys
    trans   truncated half messages are deleted, and those that an op record ends; if only the op record was
            truncated, the half message is open again. If op records are lost, every half message without a readable
            one is. Half messages that no start would enter are entered
    timer   truncated timers are deleted, or point to the record before the roll; if only a delete was truncated, its
            timer returns. The timers' scan resumes at the end of their queue, also if the truncated records are
            unreadable. A timeline that never fired begins at its first timer, as a start would skip due timers

In the mode of a broker, records from its start on are entered, and nothing is truncated.

Source: IndexRocksDBStore, TransMessageRocksDBStore, Timeline (5.5.0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from store.change.actions import Action, replace_files
from store.files.rocksdb_copy import edit_copy
from store.files.rocksdb_files import is_rocksdb_file
from store.files.scratch import Scratch
from store.files.store_reader import StoreReader
from store.formats.properties import TIMER_DEL_UNIQKEY, TIMER_OUT_MS
from store.formats.topics import TIMER_TOPIC
from store.setting_values import MAX_LONG
from store.structures.messagedb.database import CONTENT, FOLDER, MessageDatabase, may_hold_entries, open_database
from store.structures.messagedb.expect import OpenHalves, Record, walk_records
from store.structures.messagedb.halves import has_half_messages, has_lost_ends
from store.structures.messagedb.keys import (
    INDEX,
    LAST_OFFSET,
    LAST_TIME,
    SCAN_OFFSET,
    TIMELINE,
    TIMER,
    TRANS,
    UNIQUE,
    HalfEntry,
    IndexEntry,
    TimerEntry,
    encode_long,
)

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore
    from store.verbs.rebuild.scope import RebuildScope
    from store.verbs.recover.recover import RecoveryReport

DIFFERENCE = "message-database"
Identity = tuple[int, str]


def follow(opened: OpenedStore, found: RecoveryReport, scope: RebuildScope) -> list[Action]:
    """Return the actions that replace a database that differs from the recovered log by an edited copy.

    BadRequest without the package rocksdict, DamagedFile if RocksDB does not open the database.
    """
    is_indexed, is_filled = bool(opened.config.index_rocks_db_enable), may_hold_entries(opened.layout, opened.fs)
    if not (is_indexed or is_filled or has_half_messages(opened)):
        return []
    assert opened.overlay is not None
    folder, copy = opened.layout.root / FOLDER, opened.overlay.folder / FOLDER
    with Scratch() as scratch:
        database = open_database(folder, scratch.folder, opened.fs) if is_filled else None
        entered_from = found.entered_from if opened.as_broker else None
        edits = _Edits(
            database, found.log_end, opened.clock(), is_indexed, entered_from, partial(has_lost_ends, opened)
        )
        for record in walk_records(StoreReader.of(opened.layout, opened.fs)):
            edits.take(record)
        queue = opened.queues.find(TIMER_TOPIC, 0)
        if edits.scan_end is None and queue is not None:
            edits.scan_end = queue.max_offset
        changed = edits.finish()
    if not any(changed.values()):
        return []
    edit_copy(folder, copy, opened.fs, CONTENT, changed)
    return replace_database(opened, copy)


def replace_database(opened: OpenedStore, copy: Path) -> list[Action]:
    """Return the actions that replace the store's message database by the files of a copy."""
    folder = opened.layout.root / FOLDER
    # Links are unchanged tables.
    entries = [entry for entry in opened.fs.list_folder(copy) if entry.path.name != "LOCK"]
    staged = {folder / entry.path.name: entry.path for entry in entries if not entry.is_link}
    old = opened.fs.list_names(folder) if opened.fs.is_folder(folder) else []
    left = {"LOCK", *(entry.path.name for entry in entries)}
    return replace_files([folder / name for name in old if is_rocksdb_file(name) and name not in left], staged)


@dataclass(slots=True)
class _Edits:
    """The edits of a database: call `take` for each record in log order, then `finish`.

    end           the log's end
    now_ms        the latest start of a timeline; a later one would skip new timers of a running broker
    is_indexed    keys are entered even if the database has none
    entered_from  the log offset from which a broker enters records, without truncation; None for a repair
    lost_ends     whether the log may have lost ends of half messages, from readable records and the last entered one
    scan_end      the end of the queue of timers, by its records; None without any
    """

    database: MessageDatabase | None
    end: int
    now_ms: int
    is_indexed: bool = False
    entered_from: int | None = None
    lost_ends: Callable[[OpenHalves, int], bool] = lambda readable, last: False
    added: list[IndexEntry] = field(default_factory=list)
    halves: OpenHalves = field(default_factory=OpenHalves)
    readable: OpenHalves = field(default_factory=OpenHalves)
    ended: set[int] = field(default_factory=set)
    reopened: set[int] = field(default_factory=set)
    timers: dict[Identity, TimerEntry] = field(default_factory=dict)
    cut_deletes: set[Identity] = field(default_factory=set)
    scan_end: int | None = None

    def take(self, record: Record) -> None:
        """Collect the entries that a record adds or ends."""
        is_cut = record.log_offset >= self.end
        if self.entered_from is not None and (is_cut or record.log_offset < self.entered_from):
            return
        self.readable.take(record)
        if not is_cut:
            last = self._long(INDEX, LAST_OFFSET)
            if last < record.log_offset if last else self.is_indexed:
                self.added += record.index_entries()
            self.halves.take(record)
            self.ended |= {ended} if (ended := record.ended_half()) is not None else set()
        elif (ended := record.ended_half()) is not None and ended < self.end:
            self.reopened.add(ended)
        if record.topic == TIMER_TOPIC:
            self._take_timer(record)

    def _take_timer(self, record: Record) -> None:
        is_cut = record.log_offset >= self.end
        if not is_cut or self.scan_end is None:
            self.scan_end = record.queue_offset + (not is_cut)
        deletes, delivery_ms = record.properties.get(TIMER_DEL_UNIQKEY), record.properties.get(TIMER_OUT_MS, "")
        if deletes is not None and delivery_ms.isdigit():
            victim = int(delivery_ms), deletes.partition("+")[2] or deletes
            if is_cut:
                self.cut_deletes.add(victim)
            else:
                self.timers.pop(victim, None)
        elif (entry := record.timer()) is not None and not is_cut:
            self.timers[entry.delivery_ms, entry.unique_key] = entry

    def finish(self) -> dict[str, dict[bytes, bytes | None]]:
        """Return the new values by family; None for a deleted key."""
        timers = self._of_timers() if self.entered_from is None else {}
        return {INDEX: self._of_index(), TRANS: self._of_halves(), TIMER: timers}

    @property
    def _cut_from(self) -> int:
        """First log offset with entries to delete."""
        return self.end if self.entered_from is None else MAX_LONG

    def _of_index(self) -> dict[bytes, bytes | None]:
        edits: dict[bytes, bytes | None] = {}
        left, last = (0, 0), self._long(INDEX, LAST_OFFSET)
        for entry in self.database.index() if self.database is not None else ():
            if isinstance(entry, IndexEntry) and entry.log_offset >= self._cut_from:
                edits[entry.encode()[0]] = None
            elif isinstance(entry, IndexEntry) and entry.kind == UNIQUE:
                left = max(left, (entry.log_offset, entry.store_timestamp_ms))
        for entry in self.added:
            edits |= dict([entry.encode()])
            left = max(left, (entry.log_offset, entry.store_timestamp_ms)) if entry.kind == UNIQUE else left
        if (last or self.is_indexed) and (last >= self._cut_from or left[0] > last):
            edits |= {LAST_OFFSET: encode_long(left[0]), LAST_TIME: encode_long(left[1])}
        return edits

    def _of_halves(self) -> dict[bytes, bytes | None]:
        edits: dict[bytes, bytes | None] = {}
        last, known, newest = self._long(TRANS, LAST_OFFSET), set(), self.halves.newest
        for entry in self.database.halves() if self.database is not None else ():
            if isinstance(entry, HalfEntry):
                known.add(entry.log_offset)
                if entry.log_offset >= self._cut_from or entry.log_offset in self.ended:
                    edits[entry.encode()[0]] = None
        unknown = {place: half for place, half in self.halves.halves.items() if place not in known}
        # A given-up half message has no entry either, and no op record.
        are_lost = self.entered_from is None and bool(unknown) and self.lost_ends(self.readable, last)
        for place, half in unknown.items():
            if are_lost or place in self.reopened or place > last or not last:
                edits |= dict([half.encode()])
        if newest >= 0 and (last >= self._cut_from or newest > last):
            edits[LAST_OFFSET] = encode_long(newest)
        elif last and last >= self._cut_from:
            edits[LAST_OFFSET] = encode_long(0)
        return edits

    def _of_timers(self) -> dict[bytes, bytes | None]:
        edits: dict[bytes, bytes | None] = {}
        if self.database is None or SCAN_OFFSET not in self.database.longs[TIMER]:
            return edits
        longs, waiting, lost = self.database.longs[TIMER], [], set(self.cut_deletes)
        for entry in self.database.timers():
            if isinstance(entry, TimerEntry) and entry.log_offset >= self.end:
                edits[entry.encode()[0]] = None
                lost.add((entry.delivery_ms, entry.unique_key))
            elif isinstance(entry, TimerEntry):
                waiting.append(entry.delivery_ms)
        fired_ms = self._long(TIMER, TIMELINE)
        for entry in (self.timers[one] for one in sorted(lost & self.timers.keys()) if one[0] >= fired_ms):
            edits |= dict([entry.encode()])
            waiting.append(entry.delivery_ms)
        if self.scan_end is not None and self.scan_end < longs[SCAN_OFFSET]:
            edits[SCAN_OFFSET] = encode_long(self.scan_end)
        if TIMELINE not in longs and waiting:
            edits[TIMELINE] = encode_long(min(*waiting, self.now_ms))
        return edits

    def _long(self, family: str, name: bytes) -> int:
        return self.database.long(family, name) if self.database is not None else 0
