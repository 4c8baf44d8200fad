"""One line for people about a RocksDB with consume queues."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.filesystem import Filesystem
from store.files.rocksdb_files import has_queue_database, has_rocksdb_queues, queue_database
from store.formats.wording import amount
from store.layout import StoreLayout
from store.structures.queuedb.owner import Owner, find_owner
from store.structures.registry import Present

_BESIDE_FILES = {
    Owner.DATABASE: "storeType=defaultRocksDB, and queue files of an earlier time: {ends}",
    Owner.BOTH: "double write: file queues of {topics} beside it",
    Owner.FILES: "of an earlier time: {ends}; set rocksdbCQDoubleWriteEnable=true if the broker writes both",
    Owner.UNKNOWN: "unknown whether a broker reads it, as the queue files lack entries: {ends}; set storeType",
}

_TOLD = {
    Owner.DATABASE: "storeType=defaultRocksDB, and file queues of {topics} beside it that a broker does not read",
    Owner.FILES: "beside file queues of {topics}, and a broker does not read it",
}
"""Where a given setting decides, and no end is read."""


def describe(layout: StoreLayout, fs: Filesystem) -> Iterator[Present]:
    """Describe the database, and whether queue files are beside it."""
    if not has_queue_database(layout, fs):
        return
    folder = queue_database(layout, fs).name
    found, detail = find_owner(layout, fs), "storeType=defaultRocksDB"
    if not has_rocksdb_queues(layout, fs):
        topics = [entry for entry in fs.list_folder(layout.consumequeue) if entry.is_folder]
        ends = f"it ends at {found.database}, file queues of {amount(len(topics), 'topic')} beside it at {found.files}"
        is_told = found.files < 0 and found.database < 0
        texts = {**_BESIDE_FILES, **_TOLD} if is_told else _BESIDE_FILES
        detail = texts[found.owner].format(topics=amount(len(topics), "topic"), ends=ends)
    yield Present("RocksDB with the consume queues", folder, detail, holds_queues=found.owner is Owner.DATABASE)
