"""The extents of the queues in a store's RocksDB."""

from __future__ import annotations

from collections.abc import Iterator

from store.broker_line import BrokerLine
from store.files.rocksdb_files import has_queue_database, queue_database
from store.files.scratch import Scratch
from store.files.store_reader import StoreReader
from store.layout import StoreLayout
from store.structures.queuedb.database import open_database
from store.structures.queuedb.owner import is_databases
from store.structures.queuedb.view import queues_alone


def extents(
    reader: StoreReader, min_log_offset: int, line: BrokerLine
) -> Iterator[tuple[str, int, int, int, int, int]]:
    """Yield every queue of the database with its extent, if a broker reads it.

    Beside queue files, yield only light queues without files (5.5).
    StoreError for an unreadable database.
    """
    root, fs = reader.tree
    layout = StoreLayout(root, queue_settings=reader.queue_settings)
    if not has_queue_database(layout, fs):
        return
    is_alone = is_databases(layout, fs)
    if not is_alone and not line.matches_first_record:
        return
    with Scratch() as scratch:
        database = open_database(queue_database(layout, fs), scratch.folder, fs)
        for queue in sorted(database.newest if is_alone else queues_alone(database, layout, fs)):
            yield *queue, *database.extent(queue, min_log_offset)
