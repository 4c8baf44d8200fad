"""The extents of the queues in a store's RocksDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from store.files.filesystem import Filesystem
from store.files.rocksdb_files import has_rocksdb_queues, queue_database
from store.files.scratch import Scratch
from store.files.store_reader import StoreReader
from store.layout import StoreLayout
from store.structures.queuedb.database import open_database


def extents(reader: StoreReader, min_log_offset: int) -> Iterator[tuple[str, int, int, int, int, int]]:
    """Every queue with its extent, where no queue has files. StoreError for an unreadable database."""
    layout, fs = StoreLayout(Path(reader.address)), Filesystem()
    if not reader.is_local or not has_rocksdb_queues(layout, fs):
        return
    with Scratch() as scratch:
        database = open_database(queue_database(layout, fs), scratch.folder, fs)
        for queue in sorted(database.newest):
            yield *queue, *database.extent(queue, min_log_offset)
