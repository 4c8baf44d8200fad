"""The horizon of a check while a writer holds the store: all records before it are dispatched.

Records go to the log, then to the queues, then to the index, each in log order. So all records before the record of
the newest unit are dispatched. Later records are left to the writer.

A broker dispatches record by record. rmqctl fills queue after queue with a run of records, so some queues may still
lack units of that run. `settled_horizon` waits for the run to end.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from time import sleep

from store.files.filesystem import Filesystem
from store.files.lock import is_locked
from store.files.store_reader import StoreReader
from store.formats.derived import is_of_record, units_of
from store.formats.queue_unit import UNIT_SIZE
from store.structures.consumequeue.survey import QueueListing

FILES_LOOKED_AT = 16
RUN_SECONDS = 0.1
"""Longer than the dispatch of one run takes."""


def has_writer(files: StoreReader) -> bool:
    """Return whether a broker or another rmqctl holds the store's lock.

    The lock of a remote store is not visible: False.
    """
    return files.is_local and is_locked(Path(files.address, "lock"), Filesystem())


def settled_horizon(files: StoreReader, listings: Iterable[QueueListing]) -> int:
    """Find a log offset with all records before it dispatched, after a run that is under way has ended."""
    horizon = horizon_of(files, listings)
    sleep(RUN_SECONDS)
    return horizon


def horizon_of(files: StoreReader, listings: Iterable[QueueListing]) -> int:
    """Find the log offset of the newest record that has a unit."""
    last_files = (listing.files[-1] for listing in listings if listing.files)
    newest = sorted(last_files, key=lambda file: file.mtime_ms)[-FILES_LOOKED_AT:]
    offsets = [0]
    for file in newest:
        units = units_of(files.salvage_written(file.path, file.size, UNIT_SIZE).buffer)
        offsets += units["log_offset"][is_of_record(units)][-1:].tolist()
    return max(offsets)
