"""The units of delayed messages in a RocksDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.rocksdb_files import CURRENT, queue_database
from store.files.scratch import Scratch
from store.formats.topics import SCHEDULE_TOPIC
from store.layout import StoreLayout
from store.structures.consumequeue.batch_units import BatchUnitArray
from store.structures.queuedb.database import open_database


def units_of(layout: StoreLayout, fs: Filesystem) -> Iterator[tuple[int, BatchUnitArray]]:
    """Return the units of each level in the store's RocksDB."""
    return units_in(queue_database(layout, fs), fs)


def units_in(folder: Path, fs: Filesystem) -> Iterator[tuple[int, BatchUnitArray]]:
    """Yield the units of each level in a RocksDB; none without a RocksDB or the package rocksdict."""
    if not fs.exists(folder / CURRENT):
        return
    with suppress(StoreError), Scratch() as scratch:
        database = open_database(folder, scratch.folder, fs)
        for topic, queue_id in sorted(database.newest):
            if topic == SCHEDULE_TOPIC:
                yield queue_id + 1, database.units((topic, queue_id))
