"""Compare the records of a compacted queue with the queue and with the commit log."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from store import kernels
from store.consumequeue.numbering import QueueTable
from store.disk.store_reader import StoreReader
from store.errors import DamagedRecord
from store.five.compaction.files import Queue
from store.formats.derived import is_pre_blank, units_of
from store.formats.message import decode_record
from store.formats.properties import KEYS
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array, Run
from store.formats.sets import is_in

_HEAD = struct.Struct(">i8xi4xqq")
"""Size, queue id, queue offset and log offset of a record."""

NO_DIFFERENCE = -1

Wrong = npt.NDArray[np.bool_]


def record_faults(run: Run, queue: Queue, originals: Originals) -> Iterator[tuple[Wrong, Callable[[int], str]]]:
    """Yield for each kind of fault the rows that have it, and the sentence about one of them."""
    named = run.columns.log_offset
    yield named != run.columns.position + run.file_start, lambda row: f"the record says {int(named[row])}"
    table = QueueTable()
    numbers = table.assign(run.buffer, run.array, run.count, queued_only=False)
    is_foreign = ~is_in(numbers, [number for number, name in enumerate(table.names) if name == queue])
    yield is_foreign, lambda row: "the record is of topic {}, queue {}".format(*table.names[int(numbers[row])])
    yield ~is_foreign & ~_have_keys(run), lambda row: "the record has no KEYS, so it is never compacted"
    differs = np.where(is_foreign, NO_DIFFERENCE, originals.differences(run))
    yield differs != NO_DIFFERENCE, lambda row: f"its byte {int(differs[row])} is another one than in the commit log"


class Originals:
    """Find records of one queue in the commit log; the compaction log has copies of them."""

    def __init__(self, files: StoreReader, queue: Queue) -> None:
        self._files, self._queue_id = files, queue[1]
        found = files.queue_files(*queue)
        self._units = {file.number // UNIT_SIZE: units_of(files.read(file.path)) for file in found}
        self._segments = files.segments()

    def differences(self, run: Run) -> Int64Array:
        """Find the first byte of each record that differs from its original, or NO_DIFFERENCE."""
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
        """Find the first message with KEYS behind a queue offset, and how many messages are there from it on."""
        for first, units in sorted(self._units.items()):
            rows = np.flatnonzero((units["size"] > 0) & ~is_pre_blank(units))
            for row in rows[rows + first > last].tolist():
                if self._has_keys(int(units["log_offset"][row]), int(units["size"][row])):
                    return first + row, max(self._units) + self._written(max(self._units)) - first - row
        return None

    def _written(self, first: int) -> int:
        """The number of units up to the last one that was written, of the file that begins at a queue offset."""
        rows = np.flatnonzero(self._units[first]["size"] > 0)
        return int(rows[-1]) + 1 if len(rows) else 0

    def _has_keys(self, place: int, size: int) -> bool:
        segment = next((one for one in self._segments if one.number <= place < one.number + one.size), None)
        if segment is None:
            return False
        try:
            record = decode_record(bytes(self._files.read(segment.path, place - segment.number, size)))
        except DamagedRecord:
            return False
        return bool(record.properties.get(KEYS, "").strip())

    def _compare(self, run: Run, rows: Int64Array, data: memoryview, places: Int64Array, found: Int64Array) -> None:
        """Fills the differing bytes of these rows in, where their places hold the records that were copied."""
        start, differing = int(places.min()), np.empty(len(rows), np.int64)
        kernels.first_differences(run.buffer, data, run.array, rows, places - start, differing)
        for number in np.flatnonzero(differing != NO_DIFFERENCE).tolist():
            row, original_at = int(rows[number]), int(places[number])
            size, queue_offset = int(run.columns.size[row]), int(run.columns.queue_offset[row])
            if _HEAD.unpack_from(data, original_at - start) == (size, self._queue_id, queue_offset, original_at):
                found[row] = differing[number]

    def _places(self, queue_offsets: Int64Array, sizes: Int64Array) -> Int64Array:
        """The log offsets that the queue's units give; -1 without a unit of that size."""
        places = np.full(len(queue_offsets), -1, np.int64)
        for first, units in self._units.items():
            rows = np.flatnonzero((queue_offsets >= first) & (queue_offsets < first + len(units)))
            own = units[queue_offsets[rows] - first]
            places[rows] = np.where(own["size"] == sizes[rows], own["log_offset"], -1)
        return places


def _have_keys(run: Run) -> Wrong:
    """Tell the records that have the property KEYS."""
    rows, found = np.empty(run.count, np.int64), np.zeros(run.count, bool)
    found[rows[: kernels.rows_with_property(run.buffer, run.array, run.count, KEYS.encode(), rows)]] = True
    return found
