"""Find the originals of a compacted queue's records in the commit log."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from store import kernels
from store.errors import DamagedRecord
from store.files.store_reader import StoreReader
from store.formats.derived import is_pre_blank, units_of
from store.formats.message import decode_record
from store.formats.properties import KEYS
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array, Run
from store.structures.compaction.files import Queue

_HEAD = struct.Struct(">i8xi4xqq")
"""Size, queue id, queue offset and log offset of a record."""
NO_DIFFERENCE = -1


class Originals:
    """The records of one queue in the commit log; the compaction log has copies of them."""

    def __init__(self, files: StoreReader, queue: Queue) -> None:
        self._files, self._queue_id = files, queue[1]
        found = files.queue_files(*queue)
        self._units = {file.number // UNIT_SIZE: units_of(files.read(file.path)) for file in found}
        self._segments = files.segments()

    def differences(self, run: Run) -> Int64Array:
        """Return the position of each record's first byte that differs from its original, else NO_DIFFERENCE."""
        columns = run.columns
        places, found = self._places(columns.queue_offset, columns.size), np.full(run.count, NO_DIFFERENCE, np.int64)
        for segment in self._segments:
            end = segment.number + segment.size
            rows = np.flatnonzero((places >= segment.number) & (places + columns.size <= end))
            if len(rows):
                low, high = int(places[rows].min()), int((places + columns.size)[rows].max())
                data = self._files.read(segment.path, low - segment.number, high - low)
                self._compare(run, rows, data, places[rows], found)
        return found

    def uncopied(self, last: int) -> tuple[int, int] | None:
        """Return the first message with KEYS after a queue offset, and the number of messages from it on."""
        found = next(self._keyed_behind(last), None)
        if found is None:
            return None
        newest = max(self._units)
        return found[0], newest + self._written(newest) - found[0]

    def records_behind(self, last: int) -> Iterator[bytes]:
        """Return the records with KEYS after a queue offset, in queue order."""
        return (record for _, record in self._keyed_behind(last))

    def _keyed_behind(self, last: int) -> Iterator[tuple[int, bytes]]:
        """Yield queue offset and record of each message with KEYS after a queue offset."""
        for first, units in sorted(self._units.items()):
            rows = np.flatnonzero((units["size"] > 0) & ~is_pre_blank(units))
            for row in rows[rows + first > last].tolist():
                record = self._record_at(int(units["log_offset"][row]), int(units["size"][row]))
                if record is not None:
                    yield first + row, record

    def _written(self, first: int) -> int:
        """Return the number of units up to the last written one, in the file that begins at `first`."""
        rows = np.flatnonzero(self._units[first]["size"] > 0)
        return int(rows[-1]) + 1 if len(rows) else 0

    def _record_at(self, place: int, size: int) -> bytes | None:
        """Return the record at a log offset; None if it is missing, damaged or without KEYS."""
        segment = next((one for one in self._segments if one.number <= place < one.number + one.size), None)
        if segment is None:
            return None
        record = bytes(self._files.read(segment.path, place - segment.number, size))
        try:
            keys = decode_record(record).properties.get(KEYS, "")
        except DamagedRecord:
            return None
        return record if keys.strip() else None

    def _compare(self, run: Run, rows: Int64Array, data: memoryview, places: Int64Array, found: Int64Array) -> None:
        """Set `found` for rows that differ, if the record at their place is the copied one."""
        start, differing = int(places.min()), np.empty(len(rows), np.int64)
        kernels.first_differences(run.buffer, data, run.array, rows, places - start, differing)
        for number in np.flatnonzero(differing != NO_DIFFERENCE).tolist():
            row, original_at = int(rows[number]), int(places[number])
            size, queue_offset = int(run.columns.size[row]), int(run.columns.queue_offset[row])
            if _HEAD.unpack_from(data, original_at - start) == (size, self._queue_id, queue_offset, original_at):
                found[row] = differing[number]

    def _places(self, queue_offsets: Int64Array, sizes: Int64Array) -> Int64Array:
        """Return the log offsets in the queue's units; -1 without a unit of that size."""
        places = np.full(len(queue_offsets), -1, np.int64)
        for first, units in self._units.items():
            rows = np.flatnonzero((queue_offsets >= first) & (queue_offsets < first + len(units)))
            own = units[queue_offsets[rows] - first]
            places[rows] = np.where(own["size"] == sizes[rows], own["log_offset"], -1)
        return places
