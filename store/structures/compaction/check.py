"""Check the compaction store: names of files, records, and units against records.

    names     log and units have files with the same names, and no .delete files; else no broker starts
    records   each is valid, belongs to this queue and has KEYS; its log offset is its position here, and its other
              bytes equal the record in the commit log. After a clean stop each message with KEYS has a copy
    units     one for each record, with its fields, and nothing after them; queue offsets rise over all files
    position  a readable table, without a position past the queue's last message

Imported only if a store has compacted topics.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from store.files.store_reader import StoredFile, StoreReader
from store.formats.queue_unit import BATCH_UNIT_SIZE
from store.formats.run import Run
from store.formats.wording import amount
from store.structures.checked import CheckedStore
from store.structures.commitlog.scan import Damage, Outcome
from store.structures.compaction.expect import record_faults
from store.structures.compaction.files import (
    POSITIONS,
    QueueFiles,
    behind_units,
    compacted_topics,
    expected_units,
    queues_of,
    read_positions,
    read_units,
    records_of,
    start_faults,
)
from store.structures.compaction.originals import Originals
from store.structures.consumequeue.batch_units import BATCH_UNIT_DTYPE, BatchUnitArray
from store.structures.findings import Finding, Rank, kind

COMPACTION_FILES = kind(
    "compaction-files", "files of a compacted topic differ in names or lengths, or are set aside", Rank.NO_START
)
COMPACTION_RECORD = kind(
    "compaction-record", "a record of a compacted topic is damaged, misplaced, or not that of the commit log", Rank.LOSS
)
COMPACTION_UNIT = kind("compaction-unit", "an entry of a compacted topic is missing, or contradicts its record")
COMPACTION_LEFTOVER = kind("compaction-leftover", "a compaction that was cut short left a file", Rank.NOTE)
COMPACTION_UNCOPIED = kind(
    "compaction-uncopied",
    "messages of a compacted topic have no copy in its compaction log, which consumers read",
    Rank.LOSS,
)
COMPACTION_POSITION = kind(
    "compaction-position", "the table of compacted positions is missing or cannot be right", Rank.NOTE
)

_COMPARED = tuple(BATCH_UNIT_DTYPE.names or ())


def check(store: CheckedStore) -> Iterator[Finding]:
    """Yield the findings of the compaction store."""
    files, delay_levels_ms, is_written_to = store.files, store.delay_levels_ms, store.horizon is not None
    queues = queues_of(files)
    ends: dict[str, int] = {}
    for queue in queues:
        of_queue = _QueueCheck(files, queue, delay_levels_ms, is_written_to=is_written_to)
        yield from of_queue.run()
        topic, queue_id = queue.queue
        ends[f"{topic}_{queue_id}"] = of_queue.last_offset
    if queues or files.file_at(POSITIONS) is not None:
        yield from _position_findings(files, ends)
    yield from _lost_queues(store, {queue.queue for queue in queues})


def _lost_queues(store: CheckedStore, known: set[tuple[str, int]]) -> Iterator[Finding]:
    """Yield a finding for each queue of a compacted topic with messages, but no files in this store."""
    files, topics = store.files, compacted_topics(store.layout.config, store.fs)
    for topic, queue_id in files.queues() if topics else ():
        if topic in topics and (topic, queue_id) not in known and files.queue_files(topic, queue_id):
            detail = "the topic is compacted, and the queue has no compaction log: older messages are lost"
            yield Finding(COMPACTION_UNCOPIED, files.name_of("compaction"), 0, topic, queue_id, detail=detail)


class _QueueCheck:
    """One queue; `last_offset` is the queue offset of its last unit."""

    def __init__(self, files: StoreReader, queue: QueueFiles, levels: tuple[int, ...], *, is_written_to: bool) -> None:
        self.files, self.queue, self.levels, self.is_written_to = files, queue, levels, is_written_to
        self.originals = Originals(files, queue.queue)
        self.last_offset = -1

    def run(self) -> Iterator[Finding]:
        yield from self._name_findings()
        pairs = self.queue.pairs
        is_sound = True
        for number, (log, units) in enumerate(pairs):
            for finding in self._pair_findings(log, units, is_last=number == len(pairs) - 1):
                is_sound = False
                yield finding
        if pairs and is_sound and not self.is_written_to and not self.files.exists("abort"):
            yield from self._uncopied_findings(pairs[-1][0])

    def _uncopied_findings(self, log: StoredFile) -> Iterator[Finding]:
        """Yield a finding for messages after the last copy; a start copies none that has a queue entry."""
        found = self.originals.uncopied(self.last_offset)
        if found is not None:
            queue_offset, count = found
            detail = (
                f"{amount(count, 'message')} from queue offset {queue_offset} on without a copy here: no broker "
                "copies them or gives them to consumers"
            )
            yield self._find(COMPACTION_UNCOPIED, log, log.number + log.size, detail, count)

    def _find(self, kind: str, file: StoredFile, offset: int, detail: str, count: int = 1) -> Finding:
        topic, queue_id = self.queue.queue
        return Finding(kind, self.files.name_of(file.path), offset, topic, queue_id, count, detail)

    def _name_findings(self) -> Iterator[Finding]:
        for file, fault in start_faults(self.queue):
            yield self._find(COMPACTION_FILES, file, max(0, file.number), fault)
        for file in self.queue.deleted:
            if not file.size:
                yield self._find(COMPACTION_LEFTOVER, file, 0, "an empty file, set aside")
        for file in self.queue.unfinished:
            yield self._find(COMPACTION_LEFTOVER, file, file.number, "of a run that was cut short; no broker reads it")

    def _pair_findings(self, log: StoredFile, units: StoredFile, *, is_last: bool) -> Iterator[Finding]:
        runs, outcome = records_of(self.files, log)
        found = read_units(self.files, units)
        yield from self._record_findings(log, runs, outcome)
        done = 0
        for run in runs:
            wanted = expected_units(run, self.levels)
            yield from self._unit_findings(units, found[done : done + run.count], wanted, is_last=is_last)
            done += run.count
        if not (isinstance(outcome, Damage) or len(found) != done):
            yield from self._rest_findings(units, outcome, done)
        if len(found) > done and not isinstance(outcome, Damage):
            detail = f"{amount(len(found) - done, 'entry')} after the last record"
            yield self._find(COMPACTION_UNIT, units, done, detail, len(found) - done)
        if len(found):
            offsets = found["queue_offset"].astype("i8")
            wrong = np.flatnonzero(np.diff(offsets, prepend=self.last_offset) <= 0)
            if len(wrong):
                detail = f"queue offset {int(offsets[wrong[0]])} is not above the one before"
                yield self._find(COMPACTION_UNIT, units, int(wrong[0]), detail, len(wrong))
            self.last_offset = max(self.last_offset, int(offsets[-1]))

    def _record_findings(self, log: StoredFile, runs: list[Run], outcome: Outcome | None) -> Iterator[Finding]:
        for run in runs:
            places = run.columns.position + run.file_start
            for wrong, describe in record_faults(run, self.queue.queue, self.originals):
                rows = np.flatnonzero(wrong)
                if len(rows):
                    yield self._find(COMPACTION_RECORD, log, int(places[rows[0]]), describe(int(rows[0])), len(rows))
        if isinstance(outcome, Damage):
            place = outcome.file_start + outcome.position
            yield self._find(COMPACTION_RECORD, log, place, outcome.describe_reason())

    def _unit_findings(
        self, file: StoredFile, found: BatchUnitArray, wanted: BatchUnitArray, *, is_last: bool
    ) -> Iterator[Finding]:
        """Compare units with those that the records should have."""
        count = len(found)
        wrong = np.zeros(count, bool)
        for field in _COMPARED:
            wrong |= found[field] != wanted[field][:count]
        rows = np.flatnonzero(wrong)
        if len(rows):
            detail = f"does not say what its record at {int(wanted['log_offset'][rows[0]])} says"
            yield self._find(COMPACTION_UNIT, file, int(rows[0]), detail, len(rows))
        # A writer stores the record before its unit.
        if count < len(wanted) and not (is_last and self.is_written_to):
            records = amount(len(wanted) - count, "record")
            cut = ": a start cuts them off" if is_last else ""
            detail = f"{records} without an entry, the first at {int(wanted['log_offset'][count])}{cut}"
            yield self._find(COMPACTION_UNIT, file, count, detail, len(wanted) - count)

    def _rest_findings(self, file: StoredFile, outcome: Outcome | None, done: int) -> Iterator[Finding]:
        """Yield a finding for bytes after the last unit other than the end's mark and zeros."""
        start = done * BATCH_UNIT_SIZE
        wanted = behind_units(outcome, file.size - start)
        if bytes(self.files.read(file.path, start)) != wanted and not self.is_written_to:
            yield self._find(COMPACTION_UNIT, file, done, "bytes past the last entry that no broker writes")


def _position_findings(files: StoreReader, ends: dict[str, int]) -> Iterator[Finding]:
    name = files.name_of(POSITIONS)
    if files.file_at(POSITIONS) is None:
        yield Finding(COMPACTION_POSITION, name, 0, detail="missing: everything is compacted once more")
        return
    table = read_positions(files, POSITIONS)
    if table is None:
        yield Finding(COMPACTION_POSITION, name, 0, detail="no table of positions")
        return
    for queue, position in table.items():
        if position > ends.get(queue, -1):
            detail = f"{queue} is compacted up to {position}, its last message is {ends.get(queue, -1)}"
            yield Finding(COMPACTION_POSITION, name, 0, detail=detail)
