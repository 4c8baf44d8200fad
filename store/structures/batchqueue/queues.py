"""List the files of every batch queue of a store, and find a queue's extent from them.

batchconsumequeue/<topic>/<queue id>/<byte offset of the file>
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from store.broker_line import BrokerLine
from store.errors import StoreError
from store.files.store_reader import StoredFile, StoreReader
from store.formats.derived import expired_count
from store.formats.queue_unit import BATCH_UNIT_SIZE
from store.layout import parse_queue_id, parse_segment_name
from store.structures.consumequeue.batch_units import BatchUnitArray, batch_units_of, written_count

FOLDER = "batchconsumequeue"
QueueKey = tuple[str, int]


class Extent(NamedTuple):
    """First queue offset and next queue offset of a queue.

    newest, end  log offsets of the newest record's start and end, -1 without one
    """

    min_offset: int
    max_offset: int
    newest: int
    end: int


NO_EXTENT = Extent(0, 0, -1, -1)


def extents(
    reader: StoreReader, min_log_offset: int, line: BrokerLine
) -> Iterator[tuple[str, int, int, int, int, int, str]]:
    """Yield every batch queue, its extent, and a reason if its files can't be read."""
    for queue, of_queue in files_of(reader).items():
        try:
            yield *queue, *extent_of(reader, of_queue, min_log_offset), ""
        except StoreError as error:
            yield *queue, *NO_EXTENT, str(error)


def newest_record(reader: StoreReader) -> int:
    """Return the log offset of the newest record with a unit, -1 without one."""
    return max((extent_of(reader, one, 0).newest for one in files_of(reader).values()), default=-1)


def files_of(files: StoreReader) -> dict[QueueKey, list[StoredFile]]:
    """Return the files of every batch queue, in order."""
    found: dict[QueueKey, list[StoredFile]] = defaultdict(list)
    for entry in files.below(FOLDER):
        names = entry.path.split("/")[1:]
        if len(names) != 3 or entry.is_folder:
            continue
        queue_id, number = parse_queue_id(names[1]), parse_segment_name(names[2])
        if queue_id is not None and number is not None:
            found[names[0], queue_id].append(StoredFile(entry.path, number, entry.size, entry.mtime_ms))
    return {queue: sorted(of_queue, key=lambda file: file.number) for queue, of_queue in found.items()}


def extent_of(reader: StoreReader, files: Sequence[StoredFile], min_log_offset: int) -> Extent:
    """Return the extent of one queue; units before `min_log_offset` count as expired."""
    for file in reversed(files):
        units = _written(reader, file)
        if len(units):
            last = units[-1]
            behind = int(last["queue_offset"]) + int(last["message_count"])
            newest = int(last["log_offset"])
            return Extent(_first(reader, files, min_log_offset, behind), behind, newest, newest + int(last["size"]))
    return NO_EXTENT


def holds(reader: StoreReader, queue: QueueKey) -> bool:
    """Return whether a queue is a batch queue with files."""
    return queue in files_of(reader)


def find_unit(reader: StoreReader, queue: QueueKey, log_offset: int) -> tuple[str, int, int] | None:
    """Return file, position and record size of the unit with this log offset; None without one."""
    for file in files_of(reader)[queue]:
        rows = np.flatnonzero(_written(reader, file)["log_offset"] == log_offset)
        if len(rows):
            row = int(rows[0])
            return file.path, row * BATCH_UNIT_SIZE, int(_written(reader, file)["size"][row])
    return None


def expired_size(data: memoryview, log_start: int) -> int:
    """Return the bytes of the leading units of expired messages, 0 without such units."""
    units = batch_units_of(data)
    units = units[: written_count(units)]
    return expired_count(units, np.zeros(len(units), bool), log_start) * BATCH_UNIT_SIZE


def _first(reader: StoreReader, files: Sequence[StoredFile], min_log_offset: int, behind: int) -> int:
    for file in files:
        units = _written(reader, file)
        kept = units[units["log_offset"] >= min_log_offset]
        if len(kept):
            return int(kept["queue_offset"][0])
    return behind


def _written(reader: StoreReader, file: StoredFile) -> BatchUnitArray:
    units = batch_units_of(reader.read_written(file.path, file.size))
    return units[: written_count(units)]
