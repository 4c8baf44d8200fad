"""Rebuild the message database from the log's records.

    index   the entries of every record, if the old database has entries or indexRocksDBEnable is set
    trans   the half messages that no record ends, with the check counts of the old database; half messages that the
            old database had given up are left out, unless the log has lost records that may have ended them
    timer   if the old database has timers or timerRocksDBEnable is set: the messages of the queue of timers that are
            not delivered, deleted or rolled, and have no unit in the timer log. The timeline begins at the first of
            them at the latest, so a due message is delivered late and not lost

Source: IndexRocksDBStore, TransMessageRocksDBStore, Timeline (5.5.0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from store.change.change import Change, PlanReport
from store.errors import DamagedFile
from store.files.rocksdb_copy import edit_copy
from store.files.scratch import Scratch
from store.files.store_reader import StoreReader
from store.structures.messagedb.database import CONTENT, FOLDER, open_database
from store.structures.messagedb.expect import OpenHalves, walk_records
from store.structures.messagedb.halves import has_lost_ends
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
    TimerEntry,
    encode_long,
)
from store.structures.messagedb.recover import replace_database

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore

Values = dict[bytes, bytes]
Waiting = tuple[int, list[TimerEntry]] | None
"""The end of the queue of timers, and the timers that have not fired; None without that queue."""


@dataclass(slots=True)
class _Old:
    """Facts of the replaced database that the log lacks.

    is_indexed, has_timers  the index and the timers are switched on
    fired_ms                the start of the next slice of timers to fire; the clock's time if none has fired
    halves                  its half messages by log offset
    last_half               the log offset of the last half message that it had entered
    reason                  why it can't be read; empty if it is readable or missing
    """

    is_indexed: bool
    has_timers: bool
    fired_ms: int
    halves: dict[int, HalfEntry] = field(default_factory=dict)
    last_half: int = 0
    reason: str = ""

    @classmethod
    def read(cls, opened: OpenedStore) -> _Old:
        """Read the old database; given settings override its contents."""
        config, folder = opened.config, opened.layout.root / FOLDER
        old = cls(bool(config.index_rocks_db_enable), bool(config.timer_rocks_db_enable), opened.clock())
        if not opened.fs.is_folder(folder):
            return old
        with Scratch() as scratch:
            try:
                database = open_database(folder, scratch.folder, opened.fs)
                old.halves = {one.log_offset: one for one in database.halves() if isinstance(one, HalfEntry)}
                if config.timer_rocks_db_enable is None:
                    old.has_timers = database.has_timers
            except DamagedFile as error:
                old.reason = error.reason
                return old
        if config.index_rocks_db_enable is None:
            old.is_indexed = LAST_OFFSET in database.longs[INDEX]
        old.fired_ms = database.longs[TIMER].get(TIMELINE, old.fired_ms)
        old.last_half = database.long(TRANS, LAST_OFFSET)
        return old


@dataclass
class DatabasePlan(PlanReport):
    """Counts of the values in a new message database."""

    index_entry_count: int
    half_message_count: int
    timer_count: int


def plan_database(
    opened: OpenedStore, find_waiting: Callable[[OpenedStore], Waiting], *, without_halves: bool
) -> Change[DatabasePlan]:
    """Return the Change that replaces the database by a new one, built from the log's records.

    without_halves  leaves half messages out

    BadRequest without the package rocksdict.
    """
    assert opened.overlay is not None
    opened.queues.recover()
    folder, copy = opened.layout.root / FOLDER, opened.overlay.folder / FOLDER
    old = _Old.read(opened)
    index, halves = _of_records(opened, old)
    halves = {} if without_halves else halves
    timers = _of_timers(find_waiting(opened), old.fired_ms) if old.has_timers else {}
    report = DatabasePlan(
        sum(name not in (LAST_OFFSET, LAST_TIME) for name in index),
        sum(name != LAST_OFFSET for name in halves),
        sum(name not in (SCAN_OFFSET, TIMELINE) for name in timers),
    )
    change = Change("message database", opened.layout.root, opened.fs, report=report, staging=opened.overlay.folder)
    if old.reason:
        change.remarks.append(f"the old database can't be read ({old.reason}): {_SETTINGS_TELL}")
    if index and not opened.fs.is_folder(folder):
        change.remarks.append(_WIPED)
    if index or halves or timers or opened.fs.is_folder(folder):
        edit_copy(None, copy, opened.fs, CONTENT, {INDEX: index, TRANS: halves, TIMER: timers})
        change.actions += replace_database(opened, copy)
    return change


_SETTINGS_TELL = "whether it had an index and timers the settings tell, and half messages it gave up are open again"
_WIPED = "the folder is new: a broker's first cleaning takes the keys of all hours before this one out of the index"


def _of_records(opened: OpenedStore, old: _Old) -> tuple[Values, Values]:
    """Return the values of the index and of the half messages."""
    index: Values = {}
    opened_halves, newest = OpenHalves(), (0, 0)
    for record in walk_records(StoreReader.of(opened.layout, opened.fs)):
        opened_halves.take(record)
        for entry in record.index_entries() if old.is_indexed else ():
            index.update([entry.encode()])
            newest = (entry.log_offset, entry.store_timestamp_ms) if entry.kind == UNIQUE else newest
    if old.is_indexed:
        index |= {LAST_OFFSET: encode_long(newest[0]), LAST_TIME: encode_long(newest[1])}
    halves: Values = {}
    are_lost = bool(opened_halves.halves) and has_lost_ends(opened, opened_halves, old.last_half)
    for place, half in opened_halves.halves.items():
        # A half message that the old database had given up has no entry in it, and no op record in the log.
        if are_lost or place in old.halves or place > old.last_half or not old.last_half:
            halves.update([old.halves.get(place, half).encode()])
    if opened_halves.newest >= 0:
        halves[LAST_OFFSET] = encode_long(opened_halves.newest)
    return index, halves


def _of_timers(waiting: Waiting, fired_ms: int) -> Values:
    """Return the keys and values of the timers that have not fired."""
    if waiting is None:
        return {}
    end, timers = waiting
    values = dict(one.encode() for one in timers)
    # A timeline that begins in the future never fires timers of an earlier time.
    begins_ms = min([fired_ms, *(one.delivery_ms for one in timers)])
    return values | {SCAN_OFFSET: encode_long(end), TIMELINE: encode_long(begins_ms)}
