"""The files of a RocksDB, recognised by name."""

from __future__ import annotations

import re
from pathlib import Path

from store.files.filesystem import Filesystem
from store.files.numbered import some_queue_files
from store.layout import StoreLayout

CURRENT, IDENTITY = "CURRENT", "IDENTITY"
_ROCKSDB_FILES = re.compile(rf"{CURRENT}|{IDENTITY}|LOCK|LOG(\.old.*)?|(MANIFEST|OPTIONS)-\d+|\d+\.(log|sst|dbtmp)")


def has_rocksdb(folder: Path, fs: Filesystem) -> bool:
    """Return whether a RocksDB, or a part of one, is in the folder.

    Only files count, as a topic's folder may have the same name.
    """
    found = (fs.look_at(folder / name) for name in (CURRENT, IDENTITY))
    return any(entry is not None and not entry.is_folder for entry in found)


def is_rocksdb_file(name: str) -> bool:
    """Return whether this is a name of RocksDB's own files."""
    return _ROCKSDB_FILES.fullmatch(name) is not None


def queue_database(layout: StoreLayout, fs: Filesystem) -> Path:
    """Return the folder of the RocksDB with consume queues, even if the database is lost.

    A lost database is where the given useSeparateStorePathForRocksdbCQ puts it (5.5), as a broker refuses to start if
    it is in the other folder. Without that setting, a folder that is left shows it.
    """
    own, shared, wanted = layout.consumequeue_rocksdb, layout.consumequeue, layout.separates_database
    for folder in (own, shared):
        if has_rocksdb(folder, fs):
            return folder
    return own if (fs.is_folder(own) if wanted is None else wanted) else shared


def has_queue_database(layout: StoreLayout, fs: Filesystem) -> bool:
    """Return whether a RocksDB with consume queues is in the store."""
    return has_rocksdb(queue_database(layout, fs), fs)


def has_rocksdb_queues(layout: StoreLayout, fs: Filesystem) -> bool:
    """Return whether the consume queues are in a RocksDB.

    With queue files beside it, a broker reads the files.
    """
    return has_queue_database(layout, fs) and not any(some_queue_files(layout.consumequeue, fs))
