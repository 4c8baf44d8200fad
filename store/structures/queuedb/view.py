"""The queues of a RocksDB for a view of them, each read when it is asked for."""

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
"""Of the scratch files that take a queue's units."""


def open_queues(layout: StoreLayout, scratch: Path, fs: Filesystem) -> QueueDatabase:
    """Open the store's database. StoreError where RocksDB can't read it."""
    return open_database(queue_database(layout, fs), scratch, fs)


def queues_alone(database: QueueDatabase, layout: StoreLayout, fs: Filesystem) -> set[QueueKey]:
    """Find those that share records and have no files beside the others (CombineConsumeQueueStore, 5.5)."""
    sharing = (key for key in database.newest if shares_records(key[0]))
    return {key for key in sharing if not fs.exists(layout.queue_folder(*key))}


def new_queue(topic: str, queue_id: int, files: MappedFileQueue) -> RocksQueue:
    """Make a queue without units."""
    return RocksQueue(topic, queue_id, files)


def fill(queue: RocksQueue, database: QueueDatabase) -> None:
    """Give a queue its units, and its ends by the database. StoreError where they can't be read."""
    key = queue.topic, queue.queue_id
    queue.append_units(database.units(key))
    queue.oldest, queue.newest = database.oldest.get(key), database.newest.get(key)
