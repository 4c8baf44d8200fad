"""Foretell a start with a message database that is lost, or does not open.

    lost         a broker makes an empty one. After a shutdown it forgets the open half messages; after a crash it
                 enters those of the segments that it walks again
    broken       a broker starts all the same, and stops dispatching at the first half message. After a crash it meets
                 one while it loads, and does not start

Source: MessageRocksDBStorage, TransMessageRocksDBStore, CommitLog (5.5.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.errors import BadRequest, DamagedFile
from store.files.scratch import Scratch
from store.formats.topics import ROCKSDB_HALF_TOPIC
from store.formats.wording import amount
from store.structures.messagedb.database import FOLDER, may_hold_entries, open_database
from store.structures.messagedb.halves import half_messages
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore

BROKEN = "message-database-broken"


def blockers(opened: OpenedStore) -> Iterator[Trap]:
    """Find a database that does not open while half messages are to be entered."""
    queue = opened.queues.find(ROCKSDB_HALF_TOPIC, 0)
    if opened.abort.exists() and queue is not None and queue.max_offset and _fault(opened):
        yield Trap(BROKEN, f"NullPointerException: {FOLDER} does not open, and half messages are to be put into it")


def traps(opened: OpenedStore) -> Iterator[Trap]:
    """Find a database that does not open, and half messages that a start forgets."""
    if _fault(opened):
        told = "finds nothing by its index, fires no timer, and dispatches nothing behind the next half message"
        yield Trap(BROKEN, f"{FOLDER} does not open: a broker starts all the same, {told}")
    elif not may_hold_entries(opened.layout, opened.fs):
        first = _first_entered(opened)
        lost = sum(not half.is_ended and half.record.log_offset < first for half in half_messages(opened))
        if lost:
            told = f"a start forgets {amount(lost, 'open half message')}, and asks none of their producers"
            yield Trap("half-messages-forgotten", f"{FOLDER} has no entries: {told}")


def _first_entered(opened: OpenedStore) -> int:
    """Give the log offset of the first record that a start dispatches to the database."""
    segments = opened.log.segments.files
    if not opened.abort.exists() or not segments:
        return opened.log.segments.max_offset
    return segments[-opened.config.most_recovered_segments :][0].file_start


def _fault(opened: OpenedStore) -> bool:
    """Whether RocksDB refuses the database; without the package rocksdict nothing tells."""
    if not may_hold_entries(opened.layout, opened.fs):
        return False
    try:
        with Scratch() as scratch:
            open_database(opened.layout.root / FOLDER, scratch.folder, opened.fs)
    except BadRequest:
        return False
    except DamagedFile:
        return True
    return False
