"""Read the half messages of the database's topics, and find the open ones.

    an op record has its log offset            ended
    an entry                                   open; the entry has the number of checks
    no entry, past the last entered one        open: a start enters it
    no entry, up to the last entered one       given up after the last check; the log has no record of that. If the
                                               log has lost op records, it may have been ended by one of these

Source: TransMessageRocksDBStore, TransactionalMessageRocksDBService (5.5.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from store.errors import BadRequest, DamagedFile
from store.files.scratch import Scratch
from store.files.store_reader import StoreReader
from store.formats.derived import is_of_record, units_of
from store.formats.java import parse_long
from store.formats.message import Message, StoredMessage
from store.formats.message_id import create_unique_key
from store.formats.properties import REAL_TOPIC, TAGS, UNIQ_KEY, WAIT, encode_java_map
from store.formats.topics import ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC
from store.structures.commitlog.rewritten import queue_records
from store.structures.messagedb.database import FOLDER, may_hold_entries, open_database
from store.structures.messagedb.expect import TRANS_OFFSET, TRANSACTION_ID, OpenHalves, of_transactions
from store.structures.messagedb.keys import LAST_OFFSET, TRANS, HalfEntry

if TYPE_CHECKING:
    from store.formats.run import Run
    from store.opened.opened_store import OpenedStore

_OP_TAG = "d"
_MAP_CAPACITY = 16
"""Capacity of the broker's map of an op record's properties."""


def has(half: StoredMessage) -> bool:
    """Return whether a half message belongs to the database."""
    return half.topic == ROCKSDB_HALF_TOPIC


def op_message(half: StoredMessage, now_ms: int) -> Message:
    """Build the record that ends `half` (TransMessageRocksDBStore.deletePrepareMessage, 5.5.0)."""
    properties = half.properties
    texts = {
        WAIT: "false",
        TAGS: _OP_TAG,
        UNIQ_KEY: create_unique_key(now_ms),
        TRANSACTION_ID: properties.get(TRANSACTION_ID, half.uniq_key or ""),
        TRANS_OFFSET: str(half.log_offset),
        REAL_TOPIC: properties.get(REAL_TOPIC, ""),
    }
    host = half.store_host
    body, encoded = b"\0", encode_java_map(texts, capacity=_MAP_CAPACITY)
    return Message(ROCKSDB_OP_TOPIC, body, 0, encoded, born_timestamp_ms=now_ms, born_host=host, store_host=host)


class DatabaseHalf(NamedTuple):
    """A half message. `checks` is None if the database has no entry for it."""

    queue_offset: int
    record: StoredMessage
    checks: int | None
    is_ended: bool
    is_given_up: bool


def runs_of_log(opened: OpenedStore, stop: int | None = None) -> Iterator[Run]:
    """Yield the readable runs of the log, up to `stop` if given."""
    return opened.runs(opened.log.start, opened.log.max_offset if stop is None else stop)


def has_half_messages(opened: OpenedStore) -> bool:
    """Return whether the queue has half messages; if queues are in a database, whether the log has."""
    if opened.config.queues_in_database:
        return any(True for run in runs_of_log(opened) for _ in of_transactions(run))
    queue = opened.queues.find(ROCKSDB_HALF_TOPIC, 0)
    return queue is not None and queue.max_offset > 0


def half_messages(opened: OpenedStore) -> Iterator[DatabaseHalf]:
    """Yield the readable half messages in the order of their queue.

    Raises BadRequest without the package rocksdict, DamagedFile if RocksDB does not open the database.
    """
    queue = opened.queues.find(ROCKSDB_HALF_TOPIC, 0)
    if queue is None:
        return
    entries, newest = _read_entries(opened)
    ended = set(_ended(opened))
    for queue_offset, _, record in queue_records(opened.log, queue):
        if record is not None:
            place, is_ended = record.log_offset, record.log_offset in ended
            is_given_up = not is_ended and place not in entries and place <= newest
            yield DatabaseHalf(queue_offset, record, entries.get(place), is_ended, is_given_up)


def has_lost_ends(opened: OpenedStore, readable: OpenHalves, last: int) -> bool:
    """Return whether the log may have lost records that end half messages.

    The queue of op records still has their entries. Without that queue, a half message that the log has lost tells it.

    readable  of all records that can be read, also past the log's end
    last      log offset of the newest half message that the database has entered
    """
    entries = {at for at in _op_entries(opened) if at >= opened.log.start}
    return not entries <= readable.op_records if entries else last > readable.newest


def _op_entries(opened: OpenedStore) -> Iterator[int]:
    """Yield the log offsets in the queue of op records on the disk, none from an unreadable database."""
    key = ROCKSDB_OP_TOPIC, 0
    if opened.config.queues_in_database:
        with suppress(BadRequest, DamagedFile), Scratch() as scratch:
            room = next(opened.rooms_with("view", "open_queues"))
            yield from room.open_queues(opened.layout, scratch.folder, opened.fs).units(key)["log_offset"].tolist()
        return
    reader = StoreReader.of(opened.layout, opened.fs)
    for file in reader.queue_files(*key):
        units = units_of(reader.read_written(file.path, file.size))
        yield from units["log_offset"][is_of_record(units)].tolist()


def _read_entries(opened: OpenedStore) -> tuple[dict[int, int], int]:
    """Return check counts by log offset, and the newest entered half message's log offset, else -1."""
    if not may_hold_entries(opened.layout, opened.fs):
        return {}, -1
    with Scratch() as scratch:
        database = open_database(opened.layout.root / FOLDER, scratch.folder, opened.fs)
        checks = {entry.log_offset: entry.checks for entry in database.halves() if isinstance(entry, HalfEntry)}
        return checks, database.longs[TRANS].get(LAST_OFFSET, -1)


def _ended(opened: OpenedStore) -> Iterator[int]:
    """Yield the log offsets of ended half messages, from op records."""
    queue = opened.queues.find(ROCKSDB_OP_TOPIC, 0)
    for _, _, record in queue_records(opened.log, queue) if queue is not None else ():
        place = parse_long(record.properties.get(TRANS_OFFSET, "")) if record is not None else None
        if place is not None:
            yield place
