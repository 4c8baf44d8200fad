"""The settings that follow from a RocksDB with consume queues."""

from __future__ import annotations

from collections.abc import Iterator

from store.config import NAMED_QUEUES, ROCKSDB_STORE
from store.files.filesystem import Filesystem
from store.files.rocksdb_files import has_queue_database, has_rocksdb_queues, queue_database
from store.layout import StoreLayout


def infer_settings(layout: StoreLayout, fs: Filesystem) -> dict[str, object]:
    """Return the settings of a broker whose queues are only in a RocksDB.

    They include light queues, which have no folders there.
    """
    if not has_rocksdb_queues(layout, fs):
        return {}
    return {"storeType": ROCKSDB_STORE, **NAMED_QUEUES}


def traces_of_5(layout: StoreLayout, fs: Filesystem) -> Iterator[str]:
    """Yield the trace of a 5.x broker as a clause for people."""
    if has_queue_database(layout, fs):
        yield f"{queue_database(layout, fs).name} holds a RocksDB"
