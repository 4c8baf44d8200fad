"""Find the broker's queues, if a store has both queue files and a RocksDB with consume queues.

The broker's setting is in no file of the store. Both ends decide: the checkpoint of the RocksDB, and the end of the
newest record with an entry in a queue file. A given setting decides before them.

    equal                  both are written
    the files end first    the RocksDB alone is written (storeType=defaultRocksDB), the files are of an earlier time.
                           They have all entries before their end then, and the checkpoint file has the time of no
                           later one. With a later time both are written, and the files lost entries. If entries
                           before their end are missing without a later time, it is unknown
    the RocksDB ends first, after a shutdown
                           the files alone are written, the RocksDB is of an earlier time. 5.5 closes both with equal
                           ends if it writes both; 5.3 does so too unless it crashed since the last message
    the RocksDB ends first, without a shutdown
                           both count as written, as its newest entries are in memory alone

An end of the RocksDB past the log's end tells nothing: 5.3 never truncates a RocksDB beside files.

Source: RocksDBConsumeQueueStore, CombineConsumeQueueStore, StoreCheckpoint (5.3.3, 5.5.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

import numpy as np

from store.config import StoreConfig
from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.rocksdb_files import has_queue_database, has_rocksdb_queues, queue_database
from store.files.scratch import Scratch
from store.files.store_reader import StoreReader
from store.formats.derived import is_of_record, units_of
from store.formats.message import LOG_OFFSET_AT
from store.formats.queue_unit import UNIT_SIZE
from store.formats.topics import shares_records
from store.layout import DOUBLE_WRITE, OTHER_QUEUES, STORE_TYPE, StoreLayout
from store.structures.checkpoint.files import read_page
from store.structures.queuedb.database import QueueDatabase, QueueKey, open_database


class Owner(Enum):
    """The queues that a broker reads and writes."""

    DATABASE = "the RocksDB"
    BOTH = "both"
    FILES = "the queue files"
    UNKNOWN = "unknown"


class Ends(NamedTuple):
    """The broker's queues, and the ends of both kinds as log offsets; -1 if not compared."""

    owner: Owner
    files: int
    database: int


def find_owner(layout: StoreLayout, fs: Filesystem) -> Ends:
    """Return the broker's queues in a store with a RocksDB.

    Both kinds count as written if the RocksDB can't be read. They do so too with storeType=default given, unless the
    ends show that the files alone are written. No end is read if the given settings tell the queues.
    """
    given = {name: value for name, value in layout.queue_settings if name in (STORE_TYPE, DOUBLE_WRITE)}
    told = StoreConfig().with_settings(given)
    if told.queues_in_database or (STORE_TYPE not in given and has_rocksdb_queues(layout, fs)):
        return Ends(Owner.DATABASE, -1, -1)
    if told.rocksdb_cq_double_write_enable is not None:
        return Ends(Owner.BOTH if told.rocksdb_cq_double_write_enable else Owner.FILES, -1, -1)
    found = _compare_ends(layout, fs)
    return found._replace(owner=Owner.BOTH) if given and found.owner is not Owner.FILES else found


def _compare_ends(layout: StoreLayout, fs: Filesystem) -> Ends:
    with Scratch() as scratch:
        try:
            database = open_database(queue_database(layout, fs), scratch.folder, fs)
            return _compare(database, StoreReader.of(layout, fs), layout, fs)
        except StoreError:
            return Ends(Owner.BOTH, -1, -1)


def is_databases(layout: StoreLayout, fs: Filesystem) -> bool:
    """Return whether a RocksDB has the broker's queues; files beside it are of an earlier time."""
    return has_queue_database(layout, fs) and find_owner(layout, fs).owner is Owner.DATABASE


def _compare(database: QueueDatabase, reader: StoreReader, layout: StoreLayout, fs: Filesystem) -> Ends:
    of_files = {queue: _end_of(reader, queue) for queue in reader.queues()}
    files_end = max((end for _, end in of_files.values()), default=-1)
    newest = max((place.log_offset for place in database.newest.values()), default=-1)
    owner = Owner.BOTH
    if database.checkpoint > files_end:
        owner = _owner_past_files(database, reader, layout, fs, of_files, files_end)
    elif newest < database.checkpoint < files_end and not fs.exists(layout.abort):
        owner = Owner.FILES
    return Ends(owner, files_end, database.checkpoint)


def _owner_past_files(
    database: QueueDatabase,
    reader: StoreReader,
    layout: StoreLayout,
    fs: Filesystem,
    of_files: dict[QueueKey, tuple[int, int]],
    files_end: int,
) -> Owner:
    """Return the owner if the RocksDB has entries past the end of the files."""
    following = dict(_following(database, layout, fs, of_files))
    later = {at: time_ms for at, time_ms in following.items() if at >= files_end}
    newest = (place.log_offset for place in database.newest.values() if place.log_offset >= files_end)
    if not any(_starts_record(reader, at) for at in (*sorted(later)[:1], *newest)):
        return Owner.BOTH
    page, _ = read_page(reader)
    if page.logics_ms >= min(later.values(), default=0) > 0:
        return Owner.BOTH
    return Owner.DATABASE if len(later) == len(following) else Owner.UNKNOWN


def _following(
    database: QueueDatabase, layout: StoreLayout, fs: Filesystem, of_files: dict[QueueKey, tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield log offset and time of each queue's first entry in the RocksDB after those of its files."""
    for queue, newest in database.newest.items():
        topic, _ = queue
        is_elsewhere = shares_records(topic) or fs.exists(layout.root / OTHER_QUEUES / topic)
        if queue in of_files:
            unit = database.unit(queue, of_files[queue][0])
        elif not is_elsewhere:
            units = database.units(queue)
            unit = database.unit(queue, int(units["queue_offset"][0])) if len(units) else None
        else:
            continue
        if unit is not None and unit.queue_offset <= newest.queue_offset:
            yield unit.log_offset, unit.store_timestamp_ms


def _end_of(reader: StoreReader, queue: QueueKey) -> tuple[int, int]:
    """Return the next queue offset of a queue's files and their newest record's end, else (0, -1)."""
    for file in reversed(reader.queue_files(*queue)):
        units = units_of(reader.read_written(file.path, file.size))
        written = np.flatnonzero(is_of_record(units))
        if len(written):
            last = units[written[-1]]
            return file.number // UNIT_SIZE + int(written[-1]) + 1, int(last["log_offset"]) + int(last["size"])
    return 0, -1


def _starts_record(reader: StoreReader, log_offset: int) -> bool:
    """Return whether the log has a record that names this log offset as its own."""
    at = LOG_OFFSET_AT
    for segment in reader.segments():
        if segment.number <= log_offset < segment.number + segment.size:
            field = bytes(reader.read(segment.path, log_offset - segment.number + at, 8))
            return field == log_offset.to_bytes(8, "big")
    return False
