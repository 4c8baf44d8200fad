"""Compare the records of a compacted queue with the queue and with the commit log."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from store.consumequeue.numbering import QueueTable
from store.disk.store_reader import StoreReader
from store.five.compaction.files import Queue
from store.formats.derived import units_of
from store.formats.properties import KEYS, NAME_VALUE_SEPARATOR
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Run
from store.formats.sets import is_in

_KEYS = re.compile(re.escape((KEYS + NAME_VALUE_SEPARATOR).encode()))
_PLACE = slice(28, 36)
"""Of a record, the bytes that name its own log offset."""
_HEAD = struct.Struct(">i8xi4xqq")
"""Size, queue id, queue offset and log offset of a record."""

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
    found = [-1 if foreign else originals.compare(run, row) for row, foreign in enumerate(is_foreign.tolist())]
    differs = np.array(found, np.int64)
    yield differs >= 0, lambda row: f"its byte {int(differs[row])} is another one than in the commit log"


class Originals:
    """Find records of one queue in the commit log; the compaction log has copies of them."""

    def __init__(self, files: StoreReader, queue: Queue) -> None:
        self._files, self._queue_id = files, queue[1]
        found = files.queue_files(*queue)
        self._units = {file.number // UNIT_SIZE: units_of(files.read(file.path)) for file in found}
        self._starts = sorted(self._units)
        self._segments = files.segments()

    def compare(self, run: Run, row: int) -> int:
        """Find the position of the first byte that differs; -1 without one or an original."""
        columns = run.columns
        at, size = int(columns.position[row]), int(columns.size[row])
        original = self._find(int(columns.queue_offset[row]), size)
        if original is None:
            return -1
        copy = bytes(run.buffer[at : at + size])
        # The copy names its own place.
        copy = copy[: _PLACE.start] + original[_PLACE] + copy[_PLACE.stop :]
        return -1 if copy == original else next(n for n in range(size) if copy[n] != original[n])

    def _find(self, queue_offset: int, size: int) -> bytes | None:
        """The bytes of the record at a queue offset, by its unit; None unless it says so too."""
        number = bisect_right(self._starts, queue_offset) - 1
        if number < 0:
            return None
        units, row = self._units[self._starts[number]], queue_offset - self._starts[number]
        if row >= len(units) or int(units["size"][row]) != size:
            return None
        place = int(units["log_offset"][row])
        segment = next((one for one in self._segments if one.number <= place < one.number + one.size), None)
        if segment is None:
            return None
        data = bytes(self._files.read(segment.path, place - segment.number, size))
        is_own = len(data) == size and _HEAD.unpack_from(data) == (size, self._queue_id, queue_offset, place)
        return data if is_own else None


def _have_keys(run: Run) -> Wrong:
    """Tell the records that have the property KEYS."""
    columns = run.columns
    start, end = int(columns.position[0]), int(columns.position[-1] + columns.size[-1])
    hits = np.fromiter((start + hit.start() for hit in _KEYS.finditer(run.buffer[start:end])), np.int64)
    rows = np.searchsorted(columns.position, hits, side="right") - 1
    found = np.zeros(run.count, bool)
    found[rows[hits >= columns.properties_position[rows]]] = True
    return found
