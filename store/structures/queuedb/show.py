"""One line for people about a RocksDB with consume queues."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.filesystem import Filesystem
from store.files.rocksdb_files import has_queue_database, has_rocksdb_queues, queue_database
from store.formats.wording import amount
from store.layout import StoreLayout
from store.structures.registry import Present


def describe(layout: StoreLayout, fs: Filesystem) -> Iterator[Present]:
    """Describe the database, and whether queue files are beside it."""
    if not has_queue_database(layout, fs):
        return
    folder = queue_database(layout, fs).name
    is_alone, detail = has_rocksdb_queues(layout, fs), "storeType=defaultRocksDB"
    if not is_alone:
        topics = [entry for entry in fs.list_folder(layout.consumequeue) if entry.is_folder]
        detail = f"double write: file queues of {amount(len(topics), 'topic')} beside it"
    yield Present("RocksDB with the consume queues", folder, detail, holds_queues=is_alone)
