"""Predict a start with a message database that is lost, does not open, or does not end with the log.

    broken   a broker starts, and stops dispatching at the first half message. After a crash, loading may already
             dispatch a half message, and then the broker does not start
    behind   a start begins in the newest segment with entries in the database, but at most ten segments back:
             older records never get an entry. A lost database, or one that was never filled, has no entries
    ahead    entries of truncated records stay; messages put below the database's end get none

Source: MessageRocksDBStorage, IndexRocksDBStore, TransMessageRocksDBStore, Timeline, CommitLog (5.5.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.errors import BadRequest, DamagedFile
from store.files.scratch import Scratch
from store.formats.topics import TIMER_TOPIC
from store.formats.wording import amount
from store.structures.messagedb.database import FOLDER, may_hold_entries, open_database
from store.structures.messagedb.expect import OpenHalves, of_transactions, records_of
from store.structures.messagedb.halves import has_half_messages, runs_of_log
from store.structures.messagedb.keys import INDEX, LAST_OFFSET, SCAN_OFFSET, TIMER, TRANS
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore
    from store.verbs.recover.outcome import SimulatedStart

BROKEN = "message-database-broken"
Longs = dict[str, dict[bytes, int]]


def entered(opened: OpenedStore) -> list[int]:
    """Return the log offset of the newest record in the index and of the newest half message, 0 for none.

    Each counts if its setting is on; without the setting, if it has entries. Empty if the database does not open.
    """
    longs = _longs(opened)
    return list(_ends(opened, longs).values()) if longs is not None else []


def blockers(opened: OpenedStore) -> Iterator[Trap]:
    """Yield a trap if the database does not open and half messages must be entered."""
    if opened.abort.exists() and _longs(opened) is None and has_half_messages(opened):
        yield Trap(BROKEN, f"NullPointerException: {FOLDER} does not open, and half messages are to be put into it")


def traps(opened: OpenedStore, start: SimulatedStart) -> Iterator[Trap]:
    """Yield traps for a database that does not open, for skipped entries, and for ends past the log's."""
    longs = _longs(opened)
    if longs is None:
        told = "finds nothing by its index, fires no timer, and dispatches nothing after the next half message"
        yield Trap(BROKEN, f"{FOLDER} does not open: a broker starts all the same, {told}")
        return
    ends = _ends(opened, longs)
    # Records that the start truncates need no entries.
    entered_from = min(start.entered_from, start.log_end)
    if INDEX in ends:
        yield from _missing_keys(opened, ends[INDEX], entered_from)
    if TRANS in ends or has_half_messages(opened):
        yield from _forgotten_halves(opened, ends.get(TRANS, 0), start.log_end, entered_from)
    for family, what in ((INDEX, "keys"), (TRANS, "half messages")):
        if ends.get(family) and ends[family] >= start.log_end:
            told = f"the {what} of {FOLDER} reach {ends[family]}, the log ends at {start.log_end}"
            left_out = ", and messages that are put before there get none" if ends[family] > start.log_end else ""
            yield Trap("message-database-ahead", f"{told}: entries of cut records stay{left_out}", (family,))
    scanned, last = longs.get(TIMER, {}).get(SCAN_OFFSET, 0), opened.max_offset(TIMER_TOPIC, 0)
    if scanned > last:
        told = f"the timers of {FOLDER} reach queue offset {scanned}, their queue ends at {last}"
        yield Trap("message-database-ahead", f"{told}: timers that are put before there may never be due", (TIMER,))


def _ends(opened: OpenedStore, longs: Longs) -> dict[str, int]:
    """Return the last log offset by family."""
    config = opened.config
    switches = {INDEX: config.index_rocks_db_enable, TRANS: config.trans_rocks_db_enable}
    ends = {family: longs.get(family, {}).get(LAST_OFFSET, 0) for family in switches}
    return {family: end for family, end in ends.items() if (switches[family] if switches[family] is not None else end)}


def _missing_keys(opened: OpenedStore, end: int, entered_from: int) -> Iterator[Trap]:
    """Yield a trap with the number of keys that a start never enters."""
    runs = opened.runs(max(end, opened.log.min_offset), entered_from)
    missing = (one for run in runs for one in records_of(run) if not end or one.log_offset > end)
    count = sum(len(record.index_entries()) for record in missing)
    if count:
        told = f"a start enters records from {entered_from} on, and never {amount(count, 'key')} before there"
        yield Trap("message-database-behind", f"the index in {FOLDER} reaches {end}: {told}", (INDEX,))


def _forgotten_halves(opened: OpenedStore, end: int, log_end: int, entered_from: int) -> Iterator[Trap]:
    """Yield a trap with the number of open half messages that a start never enters."""
    if entered_from <= end:
        return
    halves = OpenHalves()
    for run in runs_of_log(opened, log_end):
        for record in of_transactions(run):
            halves.take(record)
    if count := sum((at > end or not end) and at < entered_from for at in halves.halves):
        told = f"a start forgets {amount(count, 'open half message')}, and checks none of them with its producer"
        state = f"knows none past {end}" if end else "has no entries"
        yield Trap("half-messages-forgotten", f"{FOLDER} {state}: {told}")


def _longs(opened: OpenedStore) -> Longs | None:
    """Return the longs of the database's families; None if RocksDB refuses it.

    Empty without the package rocksdict.
    """
    if not may_hold_entries(opened.layout, opened.fs):
        return {}
    try:
        with Scratch() as scratch:
            return open_database(opened.layout.root / FOLDER, scratch.folder, opened.fs).longs
    except BadRequest:
        return {}
    except DamagedFile:
        return None
