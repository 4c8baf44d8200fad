"""Refuses changes that would leave queues in a RocksDB behind the log."""

from __future__ import annotations

from collections.abc import Mapping

from store.config import StoreConfig
from store.errors import BadRequest, UnsupportedFormat
from store.files.filesystem import Filesystem
from store.files.rocksdb_files import has_queue_database, has_rocksdb_queues, queue_database
from store.layout import StoreLayout


def refuse(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise UnsupportedFormat for consume queues in a RocksDB."""
    if has_queue_database(layout, fs):
        reason = (
            "the consume queues are a RocksDB (storeType=defaultRocksDB); they are read, checked, recovered, cut, "
            "cleaned and rebuilt, and not changed otherwise"
            if has_rocksdb_queues(layout, fs)
            else "the consume queues are written twice, in files and a RocksDB (rocksdbCQDoubleWriteEnable); they are "
            "read, checked, recovered, cut, cleaned and rebuilt, and not changed otherwise"
        )
        raise UnsupportedFormat(reason, file=queue_database(layout, fs), code="rocksdb-queues")


def refuse_settings(settings: Mapping[str, object]) -> None:
    """Raise BadRequest for a put if the settings place queues in a RocksDB."""
    if StoreConfig().with_settings(settings).queues_in_database:
        raise BadRequest("with storeType=defaultRocksDB the consume queues are a RocksDB, to which no put is made here")
