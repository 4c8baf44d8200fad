"""The settings that follow from a RocksDB with consume queues."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from store.config import NAMED_QUEUES, ROCKSDB_STORE
from store.files.filesystem import Filesystem
from store.files.rocksdb_files import has_queue_database, has_rocksdb_queues, queue_database
from store.layout import DOUBLE_WRITE, STORE_TYPE, StoreLayout


def infer_settings(layout: StoreLayout, fs: Filesystem, given: Collection[str] = ()) -> dict[str, object]:
    """Return the settings that tell whether the queues are in a RocksDB, if they are not written twice.

    A RocksDB includes light queues, which have no folders there. A given setting decides before the ends of both kinds.
    """
    if not has_queue_database(layout, fs):
        return {}
    if not has_rocksdb_queues(layout, fs):
        if DOUBLE_WRITE in given:
            return {}
        # Most stores have one kind of queues alone, and need no RocksDB opened for that.
        from store.structures.queuedb.owner import Owner, find_owner

        owner = find_owner(layout, fs).owner
        if owner is not Owner.DATABASE or STORE_TYPE in given:
            return {DOUBLE_WRITE: False} if owner is Owner.FILES else {}
    return {STORE_TYPE: ROCKSDB_STORE, **NAMED_QUEUES}


def may_hold_light(layout: StoreLayout, fs: Filesystem) -> bool:
    """Return whether a RocksDB may hold the light queues."""
    return has_queue_database(layout, fs)


def traces_of_5(layout: StoreLayout, fs: Filesystem) -> Iterator[str]:
    """Yield the trace of a 5.x broker as a clause for people."""
    if has_queue_database(layout, fs):
        yield f"{queue_database(layout, fs).name} holds a RocksDB"
