"""Scans a part of the log into pieces: units of a queue, or keys, for the tasks that write files.

    part ──scan──> runs ──> units by queue, keys ──> scratch file, one per part
                                                     | units of a queue | units of another | … | keys |

The driver gets each piece's position in the scratch file and the numbers to plan the files, but no bytes. A part has
one piece of each queue, or several above SPILL_BYTES of units, and one piece of keys for every KEY_CAPACITY keys.
    unit piece   20 bytes per unit, as in the queue's file; a piece that is not dense ends with int64 queue offsets
    key piece    int32 hash of every key, int32 number of every key's record; int64 log offset and store time of every
                 record
Integers have this machine's byte order, as only machines of one kind use a job's scratch files. A scratch file has a
unique name: a retried task leaves two files, and the driver uses one.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from store import kernels
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.columns import COLUMN_NAMES
from store.formats.java import decode_utf8
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array, Run
from store.kernels.index import MAX_KEYS_OF_RECORD
from store.layout import is_topic_folder_name
from store.structures.commitlog.scan import VERIFYING, Outcome, ScanRules
from store.structures.commitlog.slices import LogSlice, walk_slice
from store.structures.consumequeue.multi_dispatch import refuse_light_parts
from store.structures.consumequeue.numbering import QueueTable
from store.structures.index.keys import KeyHasher, Keys
from store.structures.tables.topics import Attributes, record_attributes
from store.verbs.rebuild.scope import Queue, RebuildScope

SPILL_BYTES = 32 << 20
# Room for the keys of a run with three keys per record, and for all keys of any record.
KEY_CAPACITY = 16 * MAX_KEYS_OF_RECORD
KEY_BYTES, RECORD_BYTES = 8, 16
SIZE, QUEUE_OFFSET, LOG_OFFSET, STORE_TIME = (
    COLUMN_NAMES.index(name) for name in ("size", "queue_offset", "log_offset", "store_timestamp_ms")
)


class UnitPiece(NamedTuple):
    """Units of one queue in log order.

    first, last          queue offsets
    first_end, last_end  log offsets after the first and the last record
    is_dense             each unit may be appended directly after the previous one (kernels.find_break)
    """

    path: str
    position: int
    unit_count: int
    first: int
    last: int
    first_end: int
    last_end: int
    is_dense: bool

    def leads_on_to(self, later: UnitPiece) -> bool:
        """Return whether the first unit of `later` may be appended directly after this piece's last."""
        return later.first == self.last + 1 and later.first_end > self.last_end


class KeyPiece(NamedTuple):
    """Keys of consecutive records in log order."""

    path: str
    position: int
    key_count: int
    record_count: int


@dataclass(slots=True)
class PartPieces:
    """The pieces of one part, with log offsets.

    first               start of the first record, None without one
    outcome             the Blank, End or Damage at the end of the scan; None if it reached the part's stop
    is_true_to_place    every record's log offset field equals its position
    ends_with_keys      the last record has keys
    attributes          of topics, as the records need them in topics.json
    """

    part: LogSlice
    first: int | None = None
    end: int = 0
    outcome: Outcome | None = None
    record_count: int = 0
    is_true_to_place: bool = True
    ends_with_keys: bool = False
    queues: dict[Queue, list[UnitPiece]] = field(default_factory=dict)
    keys: list[KeyPiece] = field(default_factory=list)
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gatherer:
    """A task's work: gathers the pieces of a part. `folder` is the folder of scratch files."""

    address: str
    folder: Path
    scope: RebuildScope
    delay_levels_ms: tuple[int, ...]
    rules: ScanRules = VERIFYING

    def __call__(self, part: LogSlice) -> PartPieces:
        """Scan a part up to its stop or to the end of the log."""
        found = PartPieces(part)
        scratch = _Scratch(self.folder)
        units, keys = _Units(scratch, found, self.scope), _Keys(scratch, found)
        hasher = KeyHasher(KEY_CAPACITY, with_tags=self.scope.with_tags)
        delay_levels_ms = np.array(self.delay_levels_ms, np.int64)
        rules = replace(self.rules, by_place=True)
        for step in walk_slice(StoreReader(self.address), part, rules, go_on=False):
            if isinstance(step, Run):
                _note_run(found, step)
                due = self.scope.due(step)
                codes = np.empty(due.count, np.int64)
                for found_keys in hasher.keys_and_codes(due, delay_levels_ms, codes):
                    if self.scope.index:
                        keys.add(due, found_keys)
                if self.scope.queues and due.count:
                    units.add(due, codes)
                    found.attributes |= record_attributes(due)
            else:
                _note_outcome(found, step)
        units.spill()
        return found


def _note_run(found: PartPieces, run: Run) -> None:
    found.first = run.start if found.first is None else found.first
    found.end = run.end
    found.record_count += run.count
    columns = run.columns
    places = columns.position + run.file_start
    found.is_true_to_place = found.is_true_to_place and np.array_equal(columns.log_offset, places)


def _note_outcome(found: PartPieces, step: Outcome) -> None:
    found.end = step.file_start + step.position
    found.first = found.end if found.first is None else found.first
    start = found.part.file_start
    found.outcome = step._replace(file_start=start, position=found.end - start)


class _Scratch:
    """A scratch file that grows at its end; the first bytes create it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / uuid.uuid4().hex
        self._fs = Filesystem()
        self._descriptor: Any = None
        self._size = 0

    def append(self, *pieces: Any) -> int:
        """Append these buffers; return the position of the first."""
        if self._descriptor is None:
            self._descriptor = self._fs.open_new(self.path)
        position = self._size
        for piece in pieces:
            data = memoryview(piece).cast("B")
            self._fs.write(self._descriptor, self._size, data)
            self._size += len(data)
        return position


class _QueueUnits:
    """Units of one queue that are not in a piece yet."""

    def __init__(self) -> None:
        self.units = bytearray()
        self.offsets: list[Int64Array] = []
        self.first = self.first_end = 0
        self.last = self.last_end = -1
        self.is_dense = True

    def add(self, run: Run, array: Int64Array, rows: Int64Array, units: memoryview) -> None:
        offsets = array[QUEUE_OFFSET, rows]
        if not self.units:
            self.first, self.first_end = int(offsets[0]), _end_of(array, rows[0])
            self.last = self.first - 1
        stop = kernels.find_break(rows, 0, len(rows), array, self.last + 1, self.last_end)
        self.is_dense = self.is_dense and stop == len(rows)
        self.last, self.last_end = int(offsets[-1]), _end_of(array, rows[-1])
        self.units += units
        self.offsets.append(offsets)

    def piece(self, scratch: _Scratch) -> UnitPiece:
        position = scratch.append(self.units, *([] if self.is_dense else self.offsets))
        place = (str(scratch.path), position, len(self.units) // UNIT_SIZE)
        return UnitPiece(*place, self.first, self.last, self.first_end, self.last_end, self.is_dense)


class _Units:
    """The units of a part by queue."""

    def __init__(self, scratch: _Scratch, found: PartPieces, scope: RebuildScope) -> None:
        self._scratch = scratch
        self._found = found
        self._scope = scope
        self._table = QueueTable()
        self._queues: list[Queue] = []
        self._open: dict[Queue, _QueueUnits] = {}
        self._open_bytes = 0

    def add(self, run: Run, codes: Int64Array) -> None:
        refuse_light_parts(run)
        array = run.array
        numbers = self._table.assign(run.buffer, array, run.count)
        self._queues += [(decode_utf8(topic), queue_id) for topic, queue_id in self._table.queues[len(self._queues) :]]
        order, starts = np.empty(run.count, np.int64), np.empty(len(self._queues) + 1, np.int64)
        kernels.order_by_queue(numbers, run.count, len(self._queues), order, starts)
        units = memoryview(bytearray(run.count * UNIT_SIZE))
        kernels.write_units(units, 0, order, 0, int(starts[-1]), array, codes)
        for number in np.flatnonzero(starts[1:] > starts[:-1]):
            queue, start, stop = self._queues[number], int(starts[number]), int(starts[number + 1])
            if self._scope.wants(queue) and is_topic_folder_name(queue[0]):
                open_units = self._open.setdefault(queue, _QueueUnits())
                open_units.add(run, array, order[start:stop], units[start * UNIT_SIZE : stop * UNIT_SIZE])
        self._open_bytes += len(units)
        if self._open_bytes >= SPILL_BYTES:
            self.spill()

    def spill(self) -> None:
        for queue, units in self._open.items():
            self._found.queues.setdefault(queue, []).append(units.piece(self._scratch))
        self._open, self._open_bytes = {}, 0


class _Keys:
    """The keys of a part.

    A piece has the keys of one call of the kernel, so it fits in the processor's cache.
    """

    def __init__(self, scratch: _Scratch, found: PartPieces) -> None:
        self._scratch = scratch
        self._found = found

    def add(self, run: Run, keys: Keys) -> None:
        self._found.ends_with_keys = len(keys.records) > 0 and int(keys.records[-1]) == run.count - 1
        if len(keys.hashes):
            self._append(keys.hashes, keys.records - keys.first, run.array[:, keys.first : keys.stop])

    def _append(self, hashes: Int64Array, records: Int64Array, array: Int64Array) -> None:
        position = self._scratch.append(
            hashes.astype(np.int32), records.astype(np.int32), array[LOG_OFFSET], array[STORE_TIME]
        )
        self._found.keys.append(KeyPiece(str(self._scratch.path), position, len(hashes), array.shape[1]))


def _end_of(array: Int64Array, row: int) -> int:
    """Return the log offset after a record."""
    return int(array[LOG_OFFSET, row] + array[SIZE, row])
