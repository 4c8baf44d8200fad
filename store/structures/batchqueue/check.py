"""Check batch queues against the log, in both directions (5.x).

    each queue alone     file lengths, and consecutive queue offsets
    log → units          every record of the topic has its unit, with the same fields
    units → log          every unit points to the start of a record of its queue
    records              a record of several messages has as many messages as its property INNER_NUM

Imported only if a store has batch queues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from store import kernels
from store.errors import DamagedRecord
from store.files.numbered import usual_size
from store.files.store_reader import StoredFile, StoreReader
from store.formats.inner_batch import count_inner, inner_batch_of
from store.formats.message import INNER_BATCH as INNER_BATCH_FLAG
from store.formats.message import decode_record
from store.formats.queue_unit import BATCH_UNIT_SIZE
from store.formats.run import Run
from store.formats.sets import distinct, is_in, is_in_sorted
from store.structures.batchqueue.queue_types import BATCH, mismatched_topics, topics_with_files, types_in
from store.structures.batchqueue.queues import FOLDER, files_of
from store.structures.checked import CheckedStore
from store.structures.checkpoint.files import had_records
from store.structures.commitlog.resync import read_log
from store.structures.consumequeue.batch_units import (
    BatchUnitArray,
    batch_units_of,
    units_of_records,
    written_count,
)
from store.structures.consumequeue.numbering import QueueTable
from store.structures.findings import (
    MISSING_RECORD,
    MISSING_UNIT,
    QUEUE_DUPLICATE,
    QUEUE_GAP,
    QUEUE_LEAP,
    QUEUE_SHIFT,
    UNIT_DIFFERS,
    UNIT_NOWHERE,
    WRONG_SIZE,
    Finding,
    Rank,
    effect_on_start,
    group_findings,
    kind,
)
from store.structures.registry import TOPICS
from store.structures.tables.fastjson import members, parse_fastjson

QUEUE_TYPE = kind("queue-type", "a topic's queues are of another type than topics.json says", Rank.NO_START)
INNER_BATCH = kind("inner-batch", "a record of several messages does not match its own counts", Rank.LOSS)

Queue = tuple[str, int]
FILE_SIZE = "mapperFileSizeBatchConsumeQueue"
_OF_PLAIN_QUEUES = frozenset((MISSING_RECORD, MISSING_UNIT, QUEUE_LEAP, QUEUE_SHIFT))


def owned_by(store: CheckedStore) -> Callable[[Finding], bool]:
    """Return a filter for findings of the plain queues' check that concern batch queues."""
    topics = _topics(store) | _topics_of_backup(store.files)
    return lambda finding: finding.topic in topics and finding.kind in _OF_PLAIN_QUEUES


def _topics(store: CheckedStore) -> frozenset[str]:
    return topics_with_files(store.layout, store.fs)


def _topics_of_backup(files: StoreReader) -> frozenset[str]:
    """Return the topics of batch queues by topics.json if only the log exists, as in a backup; else none."""
    if not files.holds_log_alone or not files.exists(TOPICS):
        return frozenset()
    try:
        kinds = types_in(members(parse_fastjson(bytes(files.read(TOPICS)).decode("utf-8", "replace"))))
    except ValueError:
        return frozenset()
    return frozenset(topic for topic, kind in kinds.items() if kind == BATCH)


def check(store: CheckedStore) -> Iterator[Finding]:
    """Yield the findings of all batch queues."""
    topics, files, horizon, confirmed = _topics(store), store.files, store.horizon, store.confirmed
    if not topics:
        return
    file_size = int(store.settings.get(FILE_SIZE, 0))
    for mismatch in mismatched_topics(store.layout, store.fs):
        yield Finding(QUEUE_TYPE, files.name_of("config/topics.json"), 0, detail=mismatch)
    log = _Expected(topics, store.delay_levels_ms, horizon)
    (start, steps), is_bare = read_log(files), True
    for step in steps:
        if isinstance(step, Run):
            is_bare = False
            log.take(step)
            yield from log.inner_findings(step)
    start = 0 if is_bare and had_records(files) else start
    stored = files_of(files)
    usual = file_size or usual_size(file for of_queue in stored.values() for file in of_queue)
    for queue in sorted({*stored, *log.units}):
        of_queue = _QueueCheck(files, queue, stored.get(queue, ()), usual, is_written_to=horizon is not None)
        expected = log.of(queue)
        alone = of_queue.alone(_gaps(expected))
        yield from group_findings([*alone, *of_queue.against(expected, start, horizon, confirmed)])


class _Expected:
    """The units that the log's records should have, by queue."""

    def __init__(self, topics: Collection[str], delay_levels_ms: Sequence[int], horizon: int | None) -> None:
        self.units: dict[Queue, list[BatchUnitArray]] = defaultdict(list)
        self._topics, self._horizon = topics, horizon
        self._delays = np.array(delay_levels_ms, np.int64)
        self._table = QueueTable()

    def take(self, run: Run) -> None:
        """Collect the units of a run's records in batch queues."""
        numbers = self._table.assign(run.buffer, run.array, run.count)
        names = self._table.names
        wanted = [number for number, (topic, _) in enumerate(names) if topic in self._topics]
        if not is_in(numbers, wanted).any():
            return
        codes = np.empty(run.count, np.int64)
        kernels.tags_codes(run.buffer, run.array, run.count, self._delays, codes)
        for number in distinct(numbers[is_in(numbers, wanted)]).tolist():
            units = units_of_records(run, np.flatnonzero(numbers == number), codes)
            self.units[names[number]].append(units if self._horizon is None else _before(units, self._horizon))

    def inner_findings(self, run: Run) -> Iterator[Finding]:
        """Yield a finding for each record with other messages than INNER_BASE and INNER_NUM."""
        for row in np.flatnonzero(run.columns.sys_flag & INNER_BATCH_FLAG).tolist():
            log_offset = int(run.log_offsets[row])
            record = decode_record(run.record(row), position=log_offset)
            if record.topic not in self._topics:
                continue
            says = inner_batch_of(record.properties, record.queue_offset)
            try:
                count = count_inner(record)
            except DamagedRecord as damage:
                detail = str(damage)
            else:
                if says == (record.queue_offset, count):
                    continue
                detail = (
                    f"INNER_BASE and INNER_NUM say {says}, it is at queue offset {record.queue_offset} with {count}"
                )
            yield Finding(INNER_BATCH, str(run.path), log_offset, record.topic, record.queue_id, detail=detail)

    def of(self, queue: Queue) -> BatchUnitArray:
        """Return the units of a queue, in log order."""
        return np.concatenate(found) if (found := self.units.get(queue)) else batch_units_of(b"")


@dataclass(frozen=True, slots=True)
class _QueueCheck:
    """One queue: its files, and their expected length."""

    files: StoreReader
    queue: Queue
    stored: Sequence[StoredFile]
    usual_size: int
    is_written_to: bool = False

    def alone(self, gaps: Collection[tuple[int, int]] = ()) -> Iterator[Finding]:
        """Yield findings about the queue's files without the units of the log.

        gaps  queue offsets that the log's records leave out: the next one, and that of the next record
        """
        following: int | None = None
        for file in self.stored:
            if file.size != self.usual_size:
                effect = effect_on_start(file.size, is_last=file is self.stored[-1])
                detail = f"{file.size} bytes instead of {self.usual_size}; {effect}"
                yield self._finding(WRONG_SIZE, file, 0, detail)
            units = self._written(file)
            if len(units) < file.size // BATCH_UNIT_SIZE and file is not self.stored[-1]:
                place = len(units) * BATCH_UNIT_SIZE
                yield self._finding(QUEUE_GAP, file, following or 0, f"no entry at byte {place}, and files follow")
            yield from self._rest_findings(file, units, following)
            if not len(units):
                continue
            offsets = units["queue_offset"].astype(np.int64)
            ends = offsets + units["message_count"]
            wanted = np.concatenate([[offsets[0] if following is None else following], ends[:-1]])
            for row in np.flatnonzero(offsets != wanted).tolist():
                offset, next_offset = int(offsets[row]), int(wanted[row])
                kind = QUEUE_GAP if offset > next_offset else QUEUE_DUPLICATE
                kind = MISSING_RECORD if (next_offset, offset) in gaps else kind
                yield self._finding(kind, file, next_offset, f"queue offset {offset} where {next_offset} is next")
            following = int(ends[-1])

    def _rest_findings(self, file: StoredFile, units: BatchUnitArray, following: int | None) -> Iterator[Finding]:
        """Yield a finding for bytes after the last unit of a file that are not zero."""
        place = len(units) * BATCH_UNIT_SIZE
        rest = np.frombuffer(self.files.read_written(file.path, file.size), np.uint8)[place:]
        written = np.flatnonzero(rest)
        if len(written) and not self.is_written_to:
            next_offset = int(units["queue_offset"][-1] + units["message_count"][-1]) if len(units) else following or 0
            detail = f"byte {place + int(written[0])} is not 0, and no entry"
            yield self._finding(UNIT_NOWHERE, file, next_offset, detail)

    def against(
        self, expected: BatchUnitArray, log_start: int, horizon: int | None, confirmed: int | None
    ) -> Iterator[Finding]:
        """Yield the differences between the queue's units and the log's records."""
        pieces = [(file, self._written(file)) for file in self.stored]
        found = np.concatenate([batch_units_of(b""), *(units for _, units in pieces)])
        missing = ~is_in(expected["log_offset"], found["log_offset"])
        if confirmed is not None:
            missing &= expected["log_offset"] + expected["size"] <= confirmed
        for unit in expected[missing]:
            detail = f"the record at log offset {unit['log_offset']} has no entry"
            yield self._finding(MISSING_UNIT, None, int(unit["queue_offset"]), detail)
        by_log_offset = np.argsort(expected["log_offset"], kind="stable")
        sorted_offsets = expected["log_offset"][by_log_offset]
        for file, units in pieces:
            live = units[units["log_offset"] >= log_start]
            live = live if horizon is None else _before(live, horizon)
            places = np.searchsorted(sorted_offsets, live["log_offset"])
            known = is_in_sorted(live["log_offset"], sorted_offsets)
            for unit in live[~known]:
                detail = f"log offset {unit['log_offset']} starts no record of this queue"
                yield self._finding(UNIT_NOWHERE, file, int(unit["queue_offset"]), detail)
            wanted = expected[by_log_offset[places[known]]]
            differs = live[known] != wanted
            for unit, right in zip(live[known][differs], wanted[differs], strict=True):
                detail = f"{unit.item()} instead of {right.item()}"
                yield self._finding(UNIT_DIFFERS, file, int(right["queue_offset"]), detail)

    def _written(self, file: StoredFile) -> BatchUnitArray:
        units = batch_units_of(self.files.read_written(file.path, file.size))
        return units[: written_count(units)]

    def _finding(self, kind: str, file: StoredFile | None, offset: int, detail: str) -> Finding:
        topic, queue_id = self.queue
        path = file.path if file is not None else f"{FOLDER}/{topic}/{queue_id}"
        return Finding(kind, self.files.name_of(path), offset, topic, queue_id, detail=detail)


def _gaps(expected: BatchUnitArray) -> set[tuple[int, int]]:
    """Return the gaps in the queue offsets of the log's records, see `_QueueCheck.alone`."""
    starts = expected["queue_offset"].astype(np.int64)
    ends = starts + expected["message_count"]
    rows = np.flatnonzero(starts[1:] > ends[:-1])
    return set(zip(ends[rows].tolist(), starts[rows + 1].tolist(), strict=True))


def _before(units: BatchUnitArray, horizon: int) -> BatchUnitArray:
    return units[units["log_offset"] < horizon]
