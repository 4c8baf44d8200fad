"""Refuses changes that would leave queues in a RocksDB behind the log."""

from __future__ import annotations

from collections.abc import Mapping

from store.config import StoreConfig
from store.errors import BadRequest, UnsupportedFormat
from store.files.filesystem import Filesystem
from store.files.rocksdb_files import has_queue_database, queue_database
from store.layout import DOUBLE_WRITE, STORE_TYPE, StoreLayout
from store.structures.queuedb.owner import Owner, find_owner

_OF_OWNER = {
    Owner.DATABASE: "the consume queues are a RocksDB (storeType=defaultRocksDB)",
    Owner.BOTH: "the consume queues are written twice, in files and a RocksDB (rocksdbCQDoubleWriteEnable)",
    Owner.FILES: "a RocksDB with consume queues of an earlier time is beside the queue files",
    Owner.UNKNOWN: "the consume queues are in files or in a RocksDB, and it is unknown which of them a broker reads",
}


def refuse(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise UnsupportedFormat for consume queues in a RocksDB."""
    if has_queue_database(layout, fs):
        reason = _OF_OWNER[find_owner(layout, fs).owner]
        text = f"{reason}; they are read, checked, recovered, cut, cleaned and rebuilt, and not changed otherwise"
        raise UnsupportedFormat(text, file=queue_database(layout, fs), code="rocksdb-queues")


def require_known(layout: StoreLayout, fs: Filesystem, settings: Mapping[str, object]) -> None:
    """Raise UnsupportedFormat if neither bytes nor settings tell the broker's queues."""
    if not {STORE_TYPE, DOUBLE_WRITE} & settings.keys() and has_queue_database(layout, fs):
        found = find_owner(layout, fs)
        if found.owner is Owner.UNKNOWN:
            reason = f"{_OF_OWNER[found.owner]}: the files lack entries, and end at {found.files}, the RocksDB at "
            file = queue_database(layout, fs)
            raise UnsupportedFormat(f"{reason}{found.database}", file=file, code="unknown-queues")


def refuse_settings(settings: Mapping[str, object]) -> None:
    """Raise BadRequest for a put if the settings place queues in a RocksDB."""
    if StoreConfig().with_settings(settings).queues_in_database:
        raise BadRequest("with storeType=defaultRocksDB the consume queues are a RocksDB, to which no put is made here")
