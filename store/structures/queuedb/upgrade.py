"""Notes on the differences of another broker version for queues in a RocksDB.

Source: RocksDBConsumeQueueStore (5.3.3, 5.5.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.files.rocksdb_files import queue_database
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


def notes(own: OpenedStore, other: OpenedStore) -> Iterator[Trap]:
    """Yield a note if the other version expects the database in another folder."""
    folder, layout = queue_database(own.layout, own.fs), own.layout
    if folder == layout.consumequeue_rocksdb and not other.line.matches_first_record:
        detail = f"{folder.name} is not looked at, and an empty database is made in {layout.consumequeue.name}"
        yield Trap("queue-database-left", detail)
    if folder == layout.consumequeue and other.line.matches_first_record and not own.line.matches_first_record:
        detail = f"with useSeparateStorePathForRocksdbCQ=true it does not start: the database is in {folder.name}"
        yield Trap("queue-database-stays", detail)
