"""Check consume queues in a RocksDB against the log, in both directions (5.x).

    the database         opens, and its keys and values are well formed
    newest units         the offset table has each queue's last unit, and the checkpoint is past all their records
    log → units          every record before the checkpoint has its unit, with the same fields
    units → log          every unit points to the start of a record of its queue

With storeType=defaultRocksDB a broker reads no queue files, so those of an earlier time are not checked. A RocksDB that
a broker does not write any more may end before the log.
Units after the newest one, and units of expired records, are harmless: a broker skips them.
If a broker writes queue files too, the database begins with the first message that was written twice.
Imported only if a store has such queues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from store.config import StoreConfig
from store.errors import BadRequest, DamagedFile
from store.files.rocksdb_files import has_queue_database, is_rocksdb_file, queue_database
from store.files.scratch import Scratch
from store.formats.run import Run
from store.formats.sets import is_in
from store.layout import OTHER_QUEUES
from store.structures.checked import CheckedStore
from store.structures.commitlog.resync import read_log
from store.structures.commitlog.scan import Damage, End
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE, BatchUnitArray
from store.structures.consumequeue.compare import other_codes
from store.structures.consumequeue.dispatch_faults import PUTS_REFUSED, dispatch_faults
from store.structures.findings import (
    MISSING_UNIT,
    UNIT_DIFFERS,
    UNIT_NOWHERE,
    Finding,
    Rank,
    group_findings,
    kind,
)
from store.structures.queuedb.database import QueueDatabase, open_database
from store.structures.queuedb.infer import infer_settings
from store.structures.queuedb.keys import CHECKPOINT_TOPIC, Place
from store.structures.queuedb.runs import MalformedEntry
from store.structures.queuedb.units import UnitMaker

ROCKSDB_STATE = kind(
    "rocksdb-state", "the RocksDB with the queues can't be read, or remembers something else than it holds"
)
POISON = kind(
    "light-queue-poison-rocksdb",
    "a message names light queues so that dispatch to a RocksDB does not get past it",
    Rank.LOSS,
)

Queue = tuple[str, int]
_IN_FILES = frozenset(("consumequeue", "consumequeue_ext", OTHER_QUEUES))
_FIELDS = ("log_offset", "size", "tags_code", "store_timestamp_ms", "queue_offset")


def owned_by(store: CheckedStore) -> Callable[[Finding], bool]:
    """Return a filter for findings of the queue file check that concern the RocksDB's units or files."""
    if not _is_there(store):
        return lambda finding: False
    folder, is_alone = queue_database(store.layout, store.fs).name, _is_alone(store)

    def owns(finding: Finding) -> bool:
        path = Path(finding.file)
        if path.parent.name == folder and is_rocksdb_file(path.name):
            return True
        return is_alone and (finding.kind == MISSING_UNIT or not _IN_FILES.isdisjoint(path.parts[:-1]))

    return owns


def _is_alone(store: CheckedStore) -> bool:
    """Return whether a broker reads no queue files: there are none, or those of an earlier time."""
    return _config(store).queues_in_database


def _config(store: CheckedStore) -> StoreConfig:
    """Return the given settings, completed from the store's queues."""
    return StoreConfig().with_settings({**infer_settings(store.layout, store.fs, store.settings), **store.settings})


def _is_there(store: CheckedStore) -> bool:
    return has_queue_database(store.layout, store.fs)


def check(store: CheckedStore) -> Iterator[Finding]:
    """Yield the findings of the queues in the store's RocksDB.

    If the package rocksdict is missing, one finding reports that.
    """
    if not _is_there(store):
        return
    files, horizon, config = store.files, store.horizon, _config(store)
    beside_files = not config.queues_in_database
    folder = queue_database(store.layout, store.fs)
    with Scratch() as scratch:
        try:
            database = open_database(folder, scratch.folder, store.fs)
            log = _read_log(store, is_alone=not beside_files)
            is_left = config.rocksdb_cq_double_write_enable is False and beside_files
            is_whole = horizon is None and not files.exists("abort") and not is_left
            yield from _Check(files.name_of(folder.name), database, log, beside_files, is_whole).run()
        except (BadRequest, DamagedFile) as error:
            advice = f"; {error.hint}" if isinstance(error, BadRequest) else ""
            yield Finding(ROCKSDB_STATE, files.name_of(folder.name), 0, detail=f"{error.reason}{advice}")


@dataclass(slots=True)
class _Log:
    """The units that the log's records should have, by queue.

    is_alone    the store has no queue files beside the RocksDB
    knows_delays  the delay levels are given as a setting
    start, end  of the log
    queued_end  end of the last record with a unit before the first damage or zeros, as a broker's log ends there
    """

    maker: UnitMaker
    is_alone: bool
    knows_delays: bool
    start: int
    end: int
    queued_end: int
    is_ended: bool = False
    units: dict[Queue, list[BatchUnitArray]] = field(default_factory=lambda: defaultdict(list))
    poison: list[tuple[str, int, str]] = field(default_factory=list)

    def take(self, run: Run) -> None:
        found = self.maker.units_of(run)
        for queue, units in found.parts:
            self.units[queue].append(units)
        self.end = run.end
        if not self.is_ended:
            self.queued_end = max(self.queued_end, found.end)
        # A separate thread writes the queues of a RocksDB, so a start continues after the record.
        poison = (POISON, PUTS_REFUSED) if self.is_alone else ()
        self.poison += dispatch_faults(found.light, *poison)

    def of(self, queue: Queue) -> BatchUnitArray:
        found = self.units.get(queue)
        return np.concatenate(found) if found else np.zeros(0, BATCH_UNIT_DTYPE)


def _read_log(store: CheckedStore, *, is_alone: bool) -> _Log:
    start, steps = read_log(store.files)
    log = _Log(UnitMaker(store.delay_levels_ms), is_alone, store.knows_delays, start, start, start)
    for step in steps:
        if isinstance(step, Run) and (store.horizon is None or step.start < store.horizon):
            log.take(step)
        elif isinstance(step, End | Damage):
            log.is_ended = True
    return log


@dataclass(frozen=True, slots=True)
class _Check:
    """One database against its log. is_whole: a broker that writes it closed it, and does not run."""

    place: str
    database: QueueDatabase
    log: _Log
    beside_files: bool
    is_whole: bool

    def run(self) -> Iterator[Finding]:
        malformed = len(self.database.malformed)
        malformed += sum(isinstance(run, MalformedEntry) for run in self.database.runs())
        if malformed:
            yield Finding(ROCKSDB_STATE, self.place, 0, count=malformed, detail="a key or a value is malformed")
        yield from self._checkpoint()
        for what, log_offset, detail in self.log.poison:
            yield Finding(what, self.place, log_offset, detail=detail)
        for queue in sorted({*self.database.newest, *self.log.units}):
            yield from group_findings(self._queue(queue))

    def _checkpoint(self) -> Iterator[Finding]:
        """Yield the faults of the checkpoint, the log offset that the queues are built to."""
        found, log = self.database.checkpoint, self.log
        if found > log.end:
            yield self._state(found, f"{CHECKPOINT_TOPIC} says {found}, the log ends at {log.end}")
        elif self.is_whole and found < log.queued_end:
            yield self._state(found, f"{CHECKPOINT_TOPIC} says {found}, the newest message ends at {log.queued_end}")

    def _queue(self, queue: Queue) -> Iterator[Finding]:
        units, expected = self.database.units(queue), self.log.of(queue)
        yield from self._newest(queue, units)
        if self.beside_files and len(units):
            expected = expected[expected["queue_offset"] >= units["queue_offset"][0]]
        elif self.beside_files:
            return
        units = units[(units["log_offset"] >= self.log.start) & (units["log_offset"] < self.log.end)]
        expected_offsets, offsets = expected["queue_offset"].astype(np.int64), units["queue_offset"].astype(np.int64)
        promised = expected["log_offset"] < self.database.checkpoint
        for unit in expected[promised & ~is_in(expected_offsets, offsets)]:
            detail = f"the record at log offset {unit['log_offset']} has no entry in the RocksDB"
            yield self._finding(MISSING_UNIT, queue, int(unit["queue_offset"]), detail)
        known = is_in(offsets, expected_offsets)
        for unit in units[~known]:
            detail = f"log offset {unit['log_offset']} starts no record with this queue offset"
            yield self._finding(UNIT_NOWHERE, queue, int(unit["queue_offset"]), detail)
        order = np.argsort(expected_offsets, kind="stable")
        rows = order[np.searchsorted(expected_offsets[order], offsets[known])]
        yield from self._differences(queue, units[known], expected[rows])

    def _differences(self, queue: Queue, units: BatchUnitArray, expected: BatchUnitArray) -> Iterator[Finding]:
        differs = other_codes(
            queue[0], units["tags_code"], expected["tags_code"].astype(np.int64), self.log.knows_delays
        )
        for name in _FIELDS:
            differs |= (units[name] != expected[name]) & (name != "tags_code")
        for unit, right in zip(units[differs], expected[differs], strict=True):
            wrong = [name for name in _FIELDS if unit[name] != right[name]]
            detail = ", ".join(f"{name} {unit[name]} instead of {right[name]}" for name in wrong)
            yield self._finding(UNIT_DIFFERS, queue, int(right["queue_offset"]), detail)

    def _newest(self, queue: Queue, units: BatchUnitArray) -> Iterator[Finding]:
        """Yield the faults of a queue's last unit and the offset table's entry for it."""
        says = self.database.newest.get(queue)
        if says is None:
            return
        if not len(units) and self.database.oldest.get(queue) == Place(0, says.queue_offset + 1):
            # RocksDBConsumeQueue.initializeWithOffset (5.5.0): no unit yet, and the next follows the queue's files.
            return
        last = tuple(int(units[name][-1]) for name in ("log_offset", "queue_offset")) if len(units) else None
        if last != says and says.log_offset >= self.log.start:
            yield self._finding(
                ROCKSDB_STATE, queue, says.queue_offset, f"max says {tuple(says)}, the last entry {last}"
            )
        elif last is not None and last[0] + int(units["size"][-1]) > self.database.checkpoint:
            detail = f"the last entry's record is at {last[0]}, {CHECKPOINT_TOPIC} says {self.database.checkpoint}"
            yield self._finding(ROCKSDB_STATE, queue, says.queue_offset, detail)

    def _state(self, offset: int, detail: str) -> Finding:
        return Finding(ROCKSDB_STATE, self.place, offset, detail=detail)

    def _finding(self, kind: str, queue: Queue, offset: int, detail: str) -> Finding:
        return Finding(kind, self.place, offset, *queue, detail=detail)
