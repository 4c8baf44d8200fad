"""Foretell a broker's start on queues in a RocksDB (5.x, storeType=defaultRocksDB).

    queues' end    the log offset in the RocksDB's entry of CHECKPOINT_TOPIC, 0 without one
    after a crash  the scan begins at the newest segment whose first record has a log offset up to the queues' end;
                   the times in the checkpoint file are not read
    light queues   a batch of up to 256 messages is retried for ever if one has invalid queue offsets of light
                   queues: no message after it gets a unit
    dispatch       overwrites equal keys; after a shutdown the record that begins at the queues' end is left out
    truncation     moves the newest unit of each queue before the log's end; the files are RocksDB's own
    own folder     a 5.5 broker does not start if the database is in another folder than its setting has
    both kinds     beside queue files (5.5), see combined.py

Source: RocksDBConsumeQueueStore.recover, truncateDirty, putMessagePosition0, RocksGroupCommitService.groupCommit,
CommitLog.isMappedFileMatchedRecover (5.3.3); RocksDBConsumeQueueStore, CombineConsumeQueueStore (5.5.0).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from store.broker_line import LINE_5_5
from store.errors import BadRequest, DamagedFile
from store.files.rocksdb_files import CURRENT, has_rocksdb, queue_database
from store.files.scratch import Scratch
from store.formats.message import LOG_OFFSET_AT, TRANSACTION_PREPARED
from store.formats.queue_unit import BatchUnit
from store.formats.run import Int64Array, Run, Stretch
from store.formats.sets import distinct, is_in
from store.formats.topics import shares_records
from store.structures.commitlog.scan import Segment
from store.structures.commitlog.start import (
    Rule,
    Start,
    accelerated,
    entered_from,
    first_store_timestamp,
    newest_matching_segment,
)
from store.structures.consumequeue.multi_dispatch import find_light_parts
from store.structures.consumequeue.numbering import QueueTable
from store.structures.consumequeue.queue_set import QueueKey
from store.structures.queuedb.combined import IN_DATABASE, IN_FILES, UNREADABLE, Kinds, rule_of_both, settings_fault
from store.structures.queuedb.database import QueueDatabase, first_offset, open_database
from store.structures.queuedb.keys import Place
from store.structures.queuedb.units import UnitMaker
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.dispatch.fan_out import Handler
    from store.opened.opened_store import OpenedStore
    from store.verbs.recover.lost import QueueUnits
    from store.verbs.recover.recover import RecoveryReport

NO_OFFSETS = np.zeros(0, np.int64)
REFUSAL = "IllegalStateException: find RocksDBConsumeQueue in original/separate path, maybe incompatible config."


def blockers(opened: OpenedStore) -> Iterator[Trap]:
    """Yield a trap for a database in a folder against useSeparateStorePathForRocksdbCQ, or in both.

    Without that setting, the broker's is assumed to fit the only database.
    """
    layout = opened.layout
    found = {
        is_own
        for is_own, folder in ((False, layout.consumequeue), (True, layout.consumequeue_rocksdb))
        if opened.fs.exists(folder / CURRENT)
    }
    wanted = opened.config.use_separate_store_path_for_rocksdb_cq
    if opened.line == LINE_5_5 and (len(found) == 2 or (wanted is not None and found == {not wanted})):
        yield Trap("queue-database-elsewhere", REFUSAL)
    elif _is_combined(opened) and (fault := settings_fault(opened.config)):
        yield Trap("combined-settings", fault)


def rule_beside(opened: OpenedStore, rule: Rule) -> Rule:
    """Return the rule for a scan's start where queues are in the database too."""
    end = _end_beside(opened)
    return rule if end is None else rule_of_both(opened.config, rule, opened.queues.max_physic_offset, end)


def end_beside(opened: OpenedStore, queue_end: int) -> int:
    """Return the lower end of queue files and database."""
    end = _end_beside(opened)
    return queue_end if end is None else min(queue_end, end)


def _end_beside(opened: OpenedStore) -> int | None:
    """Return the end of the database beside queue files, 0 for a lost one.

    None if queues are not written twice, or without rocksdict.
    """
    if not _is_combined(opened):
        return None
    with contextlib.suppress(BadRequest), Scratch() as scratch:
        database = _open(opened, scratch.folder)
        return database.checkpoint if database is not None else 0
    return None


def _open(opened: OpenedStore, scratch: Path) -> QueueDatabase | None:
    """Open a copy of the database; None for a lost one, as a broker creates it again."""
    folder = queue_database(opened.layout, opened.fs)
    return open_database(folder, scratch, opened.fs) if has_rocksdb(folder, opened.fs) else None


def reach_beside(opened: OpenedStore, found: RecoveryReport, scratch: Path) -> Reach | None:
    """Return the database's queues after a scan if consumers read them, None if they read queue files.

    DamagedFile for a queue that ends differently in both: no broker starts then. BadRequest without the package
    rocksdict.
    """
    kinds = Kinds.of(opened.config)
    if not _is_combined(opened) or kinds.read != IN_DATABASE:
        return None
    database = _open(opened, scratch)
    first = found.entered_from
    entered = _Entered(first)
    for run in opened.runs(first, found.log_end):
        entered.dispatch(run)
    start, least = Start(found.end.start, found.start_reason), opened.log.min_offset
    queue_end = database.checkpoint if database is not None else 0
    reach = Reach(start, database, queue_end, False, first, entered, least, [], [], [])
    for queue in opened.queues.awake() if kinds.assigned == IN_FILES else ():
        ends = queue.max_offset, reach.next_offset((queue.topic, queue.queue_id), found.log_end)
        if ends[0] != ends[1] > 0:
            told = f"RuntimeException: CombineConsumeQueueStore currentReadStore {UNREADABLE}"
            detail = (
                f"{queue.topic}, queue {queue.queue_id} ends at {ends[0]} in its files, at {ends[1]} in the RocksDB"
            )
            raise DamagedFile(f"{told}: {detail}", code="combined-database")
    return reach


def unseen_light(opened: OpenedStore, log: Stretch) -> dict[QueueKey, int]:
    """Count the messages of a stretch that light queues lack, if the database alone has these queues."""
    if not (_is_combined(opened) and opened.config.has_named_queues_in_database):
        return {}
    unseen: Counter[QueueKey] = Counter()
    with contextlib.suppress(BadRequest, DamagedFile), Scratch() as scratch:
        database, maker = _open(opened, scratch.folder), UnitMaker(opened.config.delay_levels_ms)
        for run in opened.runs(*log):
            for queue, units in maker.units_of(run).parts:
                if shares_records(queue[0]):
                    known = database.units(queue)["log_offset"] if database is not None else NO_OFFSETS
                    unseen[queue] += int((~is_in(units["log_offset"], known)).sum())
    return dict(+unseen)


def _is_combined(opened: OpenedStore) -> bool:
    config = opened.config
    return (
        opened.line == LINE_5_5 and not config.queues_in_database and config.rocksdb_cq_double_write_enable is not False
    )


class Reach(NamedTuple):
    """The end of the queues, and the start of the log's scan.

    database         None if it is lost or unreadable
    queue_end        its checkpoint, -1 if it is unreadable
    has_unit_at_end  a unit points to queue_end or beyond
    entered_from     the log offset from which records are dispatched
    entered          first and last queue offset of the dispatched records, by queue
    min_log_offset   start of the log
    handlers         called with the runs of the scan
    light_faults     log offsets of dispatched records with invalid queue offsets of light queues
    faults           why the queues are unknown, as sentences for people
    """

    start: Start
    database: QueueDatabase | None
    queue_end: int
    has_unit_at_end: bool
    entered_from: int
    entered: _Entered
    min_log_offset: int
    handlers: list[Handler]
    light_faults: list[int]
    faults: list[str]

    def units_behind(self, log_end: int) -> Iterator[QueueUnits] | None:
        """Return the units that point at or past the log's end, queue by queue; None if unknown."""
        return _units_behind(self.database, log_end) if self.database is not None else None

    def queues(self) -> list[QueueKey]:
        """Return the queues that have units."""
        return list(self.database.newest) if self.database is not None else []

    def entries(self, queue: QueueKey) -> tuple[Int64Array, Int64Array]:
        """Return log offset and size of each unit that a queue has for readers after the scan.

        Without an entry for the first unit, a broker searches it, and goes right at a hole.
        """
        if self.database is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        units, ends = self.database.units(queue), self.entered.ends.get(queue)
        if ends is not None:
            known = dict(zip(units["queue_offset"].tolist(), units["log_offset"].tolist(), strict=True))
            newest = Place(self.entered_from, ends[1])

            def find(queue_offset: int) -> BatchUnit | None:
                at = self.entered_from if ends[0] <= queue_offset else known.get(queue_offset)
                return BatchUnit(at, 1, 0, 0, queue_offset, 1) if at is not None else None

            low = first_offset(self.database.oldest.get(queue), newest, self.min_log_offset, find)
            units = units[units["queue_offset"] >= low]
        return units["log_offset"].astype(np.int64), units["size"].astype(np.int64)

    def next_offset(self, queue: QueueKey, log_end: int) -> int:
        """Return the next queue offset of a queue after the scan."""
        if queue in self.entered.ends:
            return self.entered.ends[queue][1] + 1
        units = self.database.units(queue) if self.database is not None else ()
        return max((int(unit["queue_offset"]) + 1 for unit in units if unit["log_offset"] < log_end), default=0)

    def traps(self) -> Iterator[Trap]:
        """Yield the start's failures in the scanned records, and why queues are unknown."""
        yield from (Trap("no-rocksdict", text) for text in self.faults)
        yield from map(_poison, self.light_faults[:1])


def reach(opened: OpenedStore, scratch: Path, *, abnormal: bool, passes_damage: bool) -> Reach:
    """Open a copy of the RocksDB in `scratch`, and find the start of the scan.

    Without the package rocksdict the scan begins at the first segment, only records count as lost, and `faults` has the
    reason. A RocksDB that does not open raises DamagedFile; with `passes_damage` it counts as unreadable.
    """
    try:
        database = _open(opened, scratch)
    except (BadRequest, DamagedFile) as error:
        if isinstance(error, DamagedFile) and not passes_damage:
            raise
        start = Start(0, "the ends of the queues are unknown: the whole log is scanned")
        database, queue_end, has_unit_at_end, faults = None, -1, False, [str(error)]
    else:
        queue_end, faults = database.checkpoint if database is not None else 0, []
        newest = database.newest.values() if database is not None else ()
        has_unit_at_end = any(place.log_offset >= queue_end for place in newest)
        start = _starting_segment(opened, queue_end, abnormal=abnormal)
    poisoned: list[int] = []
    light_faults = _LightFaults(poisoned, -1 if abnormal else queue_end)
    first = entered_from(opened, start.log_offset, queue_end, abnormal=abnormal)
    entered = _Entered(first)
    handlers: list[Handler] = [entered, light_faults] if opened.config.has_named_queues else [entered]
    least = opened.log.min_offset
    return Reach(start, database, queue_end, has_unit_at_end, first, entered, least, handlers, poisoned, faults)


def _starting_segment(opened: OpenedStore, queue_end: int, *, abnormal: bool) -> Start:
    segments = opened.log.segments.files
    reason = f"the newest that the RocksDB's queues reach into ({queue_end})"
    if opened.line.matches_first_record and segments:
        start = newest_matching_segment(opened, Rule(lambda log_offset, time_ms: log_offset <= queue_end, reason))
        return accelerated(opened, start, queue_end) if abnormal else start
    for segment in reversed(segments):
        first = _first_log_offset(opened, segment) if abnormal else segment.file_start
        if 0 <= first <= queue_end:
            return Start(segment.file_start, reason)
    return Start(segments[0].file_start if segments else 0, "the RocksDB's queues reach into no segment")


def _first_log_offset(opened: OpenedStore, segment: Segment) -> int:
    """Return the log offset field of the segment's first record, -1 without a record."""
    if not first_store_timestamp(segment, opened.line):
        return -1
    return int.from_bytes(segment.buffer[LOG_OFFSET_AT : LOG_OFFSET_AT + 8], "big", signed=True)


class _Entered:
    """The first and last queue offset of the records from a log offset on, by queue."""

    def __init__(self, first: int) -> None:
        self._first, self._table = first, QueueTable()
        self.ends: dict[QueueKey, tuple[int, int]] = {}

    def dispatch(self, run: Run) -> None:
        numbers = self._table.assign(run.buffer, run.array, run.count)
        rows = np.flatnonzero((numbers >= 0) & (run.columns.log_offset >= self._first))
        for number in distinct(numbers[rows]).tolist():
            offsets = run.columns.queue_offset[rows[numbers[rows] == number]]
            key = self._table.names[number]
            self.ends[key] = self.ends.get(key, (int(offsets[0]), 0))[0], int(offsets[-1])


class _LightFaults:
    """The dispatched records past a log offset that have invalid queue offsets of light queues."""

    def __init__(self, faults: list[int], behind: int) -> None:
        self._faults, self._behind = faults, behind

    def dispatch(self, run: Run) -> None:
        # Neither PREPARED nor ROLLBACK.
        is_queued = run.columns.sys_flag & TRANSACTION_PREPARED == 0
        rows = np.flatnonzero(is_queued & (run.columns.log_offset > self._behind))
        self._faults += find_light_parts(run, rows).faults


def _units_behind(database: QueueDatabase, log_end: int) -> Iterator[QueueUnits]:
    """Yield the units that point at or past the log's end, queue by queue."""
    for queue, newest in sorted(database.newest.items()):
        if newest.log_offset >= log_end:
            units = database.units(queue)
            units = units[units["log_offset"] >= log_end]
            queue_offset, log_offset, size = (
                units[name].astype(np.int64) for name in ("queue_offset", "log_offset", "size")
            )
            yield queue, queue_offset, log_offset, size


def _poison(log_offset: int) -> Trap:
    """Describe the record that stops the dispatch to a RocksDB."""
    detail = (
        f"NumberFormatException: INNER_MULTI_QUEUE_OFFSET of the record at {log_offset}; its batch is tried again for "
        "ever, so no later message is dispatched, and after 3 s puts are refused"
    )
    return Trap("light-queue-poison-rocksdb", detail)
