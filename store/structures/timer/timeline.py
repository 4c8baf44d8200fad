"""Find the state of every timer message if rocksdbstore/ holds the timers (5.4 and later).

    the scan has not passed it, and it is due      a start delivers it at once: duplicate if it was delivered, deleted
                                                   or rolled, else pending
    a newer record with its time and unique key    rolled: the newer record counts
    the timers' scan has not passed it             pending: not in the database yet
    a copy is in its real topic, and no entry      delivered
    a copy, and its entry's time is in the future  duplicate: the timeline fires it again
    an entry whose time has passed, and no copy    lost
    an entry whose time is in the future           pending
    no entry, and a delete of it                   deleted
    no entry                                       lost

A delivered record no longer has REAL_TOPIC. A delete holds the unique key, or a text with the unique key after the
first +.

Source: Timeline, TimerMessageRocksDBStore (5.5.0).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.formats.message import StoredMessage
from store.formats.properties import TIMER_OUT_MS
from store.formats.topics import TIMER_TOPIC
from store.formats.wording import amount
from store.layout import StoreLayout
from store.structures.commitlog.rewritten import records_with
from store.structures.messagedb.database import FOLDER, may_hold_entries, open_database
from store.structures.messagedb.keys import SCAN_OFFSET, TIMELINE, TIMER, TimerEntry
from store.structures.timer.files import TimerCheckpoint, read_timer_files
from store.structures.timer.message import TimerMessage, TimerState, number_in

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore

PLACE = FOLDER
"""The folder of the timers, in the store's root."""
PRECISION_MS = 1000
"""timerRocksDBPrecisionMs: the timers of a slice of this length fire together."""
Identity = tuple[int, str | None]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The timers of a message database.

    entries      by delivery time and unique key
    scan_offset  the next queue offset to read from the queue of timers
    fired_ms     the start of the next slice to fire; None if none has fired, and then a start skips due timers
    """

    entries: dict[Identity, TimerEntry]
    scan_offset: int
    fired_ms: int | None


def fires_timeline(config: StoreConfig, layout: StoreLayout, fs: Filesystem) -> bool:
    """Return whether a broker fires the store's timers from the message database, and not from the wheel.

    Every verb that reads or builds timers asks here: a message in both is delivered twice. Without timerRocksDBEnable,
    the database is asked whether a broker has used it for timers.

    BadRequest without the package rocksdict, DamagedFile if RocksDB does not open the database.
    """
    if config.timer_rocks_db_enable is not None:
        return config.timer_rocks_db_enable
    if not may_hold_entries(layout, fs):
        return False
    with Scratch() as scratch:
        return open_database(layout.root / FOLDER, scratch.folder, fs).has_timers


def read_timeline(opened: OpenedStore) -> Timeline | None:
    """Read the timers; None if the wheel fires them.

    A start reads the queue of timers from the wheel's queue offset or the database's, the later one.
    """
    if not fires_timeline(opened.config, opened.layout, opened.fs):
        return None
    if not may_hold_entries(opened.layout, opened.fs):
        return Timeline({}, _scanned_by_wheel(opened), None)
    with Scratch() as scratch:
        database = open_database(opened.layout.root / FOLDER, scratch.folder, opened.fs)
        longs = database.longs[TIMER]
        found = [entry for entry in database.timers() if isinstance(entry, TimerEntry)]
    entries: dict[Identity, TimerEntry] = {(entry.delivery_ms, entry.unique_key): entry for entry in found}
    scanned = max(longs.get(SCAN_OFFSET, 0), _scanned_by_wheel(opened))
    return Timeline(entries, scanned, longs.get(TIMELINE))


def _scanned_by_wheel(opened: OpenedStore) -> int:
    checkpoint = read_timer_files(opened.layout, opened.fs, opened.config).checkpoint
    return checkpoint.queue_offset if checkpoint is not None else 0


def describe_sleeping(opened: OpenedStore) -> str:
    """Return a sentence on the timers that a wheel takes over and never fires; empty without any.

    A wheel reads the queue of timers from its own queue offset on, and fires what is due from its read time on.
    """
    if opened.config.timer_rocks_db_enable is not False or not may_hold_entries(opened.layout, opened.fs):
        return ""
    with Scratch() as scratch:
        database = open_database(opened.layout.root / FOLDER, scratch.folder, opened.fs)
        fired_ms = database.long(TIMER, TIMELINE)
        waiting = [one for one in database.timers() if isinstance(one, TimerEntry) and one.delivery_ms >= fired_ms]
    wheel = read_timer_files(opened.layout, opened.fs, opened.config)
    first = _first_for_wheel(opened, wheel.checkpoint)
    count = sum(one.delivery_ms < wheel.read_time_ms or one.log_offset < first for one in waiting)
    return f"timerRocksDBEnable=false: the wheel does not fire {amount(count, 'timer')} of {FOLDER}" if count else ""


def _first_for_wheel(opened: OpenedStore, checkpoint: TimerCheckpoint | None) -> int:
    """Return the log offset of the first message in the queue of timers that a wheel reads."""
    at = min(checkpoint.queue_offset, checkpoint.master_queue_offset) if checkpoint is not None else 0
    if not at:
        return 0
    queue = opened.queues.find(TIMER_TOPIC, 0)
    unit = queue.unit(at) if queue is not None else None
    return unit.log_offset if unit is not None else opened.log.max_offset


def timeline_states(
    timeline: Timeline, opened: OpenedStore, found: list[tuple[TimerMessage, StoredMessage | None]], time_ms: int
) -> Iterator[TimerMessage]:
    """Set the state of each message of the queue of timers, before a start at `time_ms`."""
    newest: dict[Identity, int] = {}
    deleted: set[Identity] = set()
    for message, _ in found:
        if message.deletes is None:
            newest[_identity(message)] = message.log_offset
        else:
            deleted.add((message.deliver_timestamp_ms, message.deletes.partition("+")[2] or message.deletes))
    copies: dict[Identity, list[int]] = defaultdict(list)
    for record in records_with(opened.log.scan(), TIMER_OUT_MS):
        if record.topic != TIMER_TOPIC:
            copies[number_in(record.properties.get(TIMER_OUT_MS), -1), record.uniq_key].append(record.log_offset)
    for message, whole in found:
        identity, fired_ms = _identity(message), timeline.fired_ms or 0
        is_scanned = message.queue_offset < timeline.scan_offset
        is_rolled, is_deleted = message.log_offset < newest.get(identity, 0), identity in deleted
        is_due = 0 <= message.deliver_timestamp_ms < time_ms + PRECISION_MS
        if whole is None:
            message.state = TimerState.LOST
        elif message.deletes is not None:
            message.state = TimerState.DELETE
        elif not is_scanned and is_due and (is_rolled or is_deleted):
            message.state = TimerState.DUPLICATE
        elif is_rolled:
            message.state = TimerState.ROLLED
        else:
            message.delivered_log_offset = copies.get(identity, [-1])[0]
            is_to_come = identity in timeline.entries and message.deliver_timestamp_ms >= fired_ms
            is_waiting = is_to_come or not (is_scanned or is_deleted)
            message.state = _state(message, is_waiting=is_waiting, is_deleted=is_deleted)
        yield message


def _state(message: TimerMessage, *, is_waiting: bool, is_deleted: bool) -> TimerState:
    if message.delivered_log_offset >= 0:
        return TimerState.DUPLICATE if is_waiting else TimerState.DELIVERED
    if is_waiting:
        return TimerState.PENDING
    return TimerState.DELETED if is_deleted else TimerState.LOST


def _identity(message: TimerMessage) -> Identity:
    return message.deliver_timestamp_ms, message.uniq_key
