"""The queues of a RocksDB for a read-only view; each is read on its first use."""

from __future__ import annotations

from pathlib import Path

from store.files.filesystem import Filesystem
from store.files.mapped_file_queue import MappedFileQueue
from store.files.rocksdb_files import queue_database
from store.formats.topics import shares_records
from store.layout import StoreLayout
from store.structures.consumequeue.queue_set import QueueKey
from store.structures.queuedb.database import QueueDatabase, open_database
from store.structures.queuedb.queue import SCRATCH_FILE_SIZE, RocksQueue

FILE_SIZE = SCRATCH_FILE_SIZE
"""Size of the scratch files for a queue's units."""


def open_queues(layout: StoreLayout, scratch: Path, fs: Filesystem) -> QueueDatabase:
    """Open the store's database. StoreError if RocksDB can't read it."""
    return open_database(queue_database(layout, fs), scratch, fs)


def queues_alone(database: QueueDatabase, layout: StoreLayout, fs: Filesystem) -> set[QueueKey]:
    """Return the queues that share records and have no queue files (CombineConsumeQueueStore, 5.5)."""
    sharing = (key for key in database.newest if shares_records(key[0]))
    return {key for key in sharing if not fs.exists(layout.queue_folder(*key))}


def new_queue(topic: str, queue_id: int, files: MappedFileQueue) -> RocksQueue:
    """Create a queue without units."""
    return RocksQueue(topic, queue_id, files)


def fill(queue: RocksQueue, database: QueueDatabase) -> None:
    """Copy a queue's units and ends from the database. StoreError if they can't be read."""
    key = queue.topic, queue.queue_id
    queue.append_units(database.units(key))
    queue.oldest, queue.newest = database.oldest.get(key), database.newest.get(key)
