"""Salvage a store, a folder or one file: records in log order, each once, and the gaps between them.

Files are walked one after the other by their place in the log. A record whose log offset an earlier piece had already
is a duplicate: the file is there twice, or its bytes were copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.run import Int64Array
from store.formats.sets import distinct, is_in_sorted
from store.formats.topics import shares_records
from store.structures.tables.consumer_offsets import ConsumerOffsets, read_consumer_offsets
from store.verbs.queue_ends import queue_ends
from store.verbs.recover.lost import LossReport
from store.verbs.salvage.evidence import Evidence
from store.verbs.salvage.grade import BlankEnd, Grade, Piece, SalvagedRun, Skipped, TornRecord, stretches
from store.verbs.salvage.log_gaps import Gap, LogCoverage
from store.verbs.salvage.losses import LostOps, SalvageLosses
from store.verbs.salvage.sources import find_sources, is_store_root
from store.verbs.salvage.walk import walk_file


@dataclass(slots=True)
class SalvageReport:
    """Count records and bytes by grade, and list torn records, gaps in the log and skipped bytes.

    skipped           bytes of files that hold no record and are in no gap
    lost              what the target does not get
    lost_ops          those of them that may be op records of saved half messages
    unread_offsets    why the consumer offsets can't be read: nothing counts as unconsumed then
    first_log_offset  of the first file, -1 without one
    units_before      queue units that name records in front of it
    """

    files: list[str] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)
    torn: list[TornRecord] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    duplicate_count: int = 0
    first_log_offset: int = -1
    units_before: int = 0
    lost: LossReport = field(default_factory=LossReport)
    lost_ops: LostOps | None = None
    unread_offsets: str = ""

    def clear(self) -> None:
        """Forgets everything, for another walk."""
        for kept in (self.files, self.records, self.size_bytes, self.torn, self.gaps, self.skipped):
            kept.clear()
        self.duplicate_count = 0

    @property
    def skipped_bytes(self) -> int:
        return sum(one.size for one in self.skipped)

    @property
    def gap_bytes(self) -> int:
        """Count the bytes of the log without a salvaged record."""
        return sum(one.size for one in self.gaps)

    @property
    def is_whole(self) -> bool:
        """Whether every record of the files is certain, and nothing is lost between them."""
        has_doubts = bool(self.torn or self.gaps or self.skipped or set(self.records) - {"certain"})
        return bool(self.files) and not has_doubts


def salvage_runs(
    path: Path,
    fs: Filesystem,
    report: SalvageReport,
    *,
    logs: Sequence[Path] = (),
    delay_levels_ms: tuple[int, ...] = (),
    taken: frozenset[Grade] = frozenset(Grade),
    on_progress: Callable[[int, int], None] = lambda done_bytes, bytes_in_all: None,
) -> Iterator[SalvagedRun]:
    """Yield every record of a store, a folder or a file, counted in `report`. Reads only.

    logs   folders of the log, where it is not below the root
    taken  the grades that the target takes; the other records are lost
    """
    evidence, coverage = _evidence(path, fs, logs, delay_levels_ms), LogCoverage()
    losses = SalvageLosses(taken)
    seen, done = np.empty(0, np.int64), 0
    sources = find_sources(path, fs, logs)
    in_all = sum(source.window.size for source, _ in sources if source.stop)
    for source, start in sources:
        if not source.stop:
            continue
        report.files.append(source.name)
        mine: list[Int64Array] = []
        for piece in walk_file(source, start):
            for run in _taken(piece, report, coverage, evidence):
                for fresh in _without(run, seen, report):
                    losses.add(fresh, evidence)
                    mine.append(fresh.log_offsets)
                    report.records[fresh.grade.value] += fresh.count
                    report.size_bytes[fresh.grade.value] += fresh.byte_count
                    yield fresh
        seen = distinct(np.concatenate([seen[seen >= start], *mine]))
        done += source.window.size
        on_progress(done, in_all)
    segment_size = max((source.window.size for source, _ in sources), default=0)
    covered = coverage.covered_end
    report.gaps = coverage.gaps(sources, evidence.log_end(covered, coverage.end, segment_size))
    report.skipped = coverage.unlisted(report.gaps)
    report.first_log_offset = min((start for source, start in sources if source.stop), default=-1)
    consumed = _consumer_offsets(path, fs, report)
    report.lost = losses.report(report.gaps, report.torn, covered, evidence, consumed)
    report.lost_ops = losses.ops(report.lost)
    report.units_before = evidence.units_before(report.first_log_offset)


def next_offsets_of(
    path: Path, fs: Filesystem, logs: Sequence[Path], warn: Callable[[str], None]
) -> dict[tuple[str, int], int]:
    """Return the queue offset of each queue's next message, as the store's files tell it.

    Queues without records of their own are left out.

    warn  is called for what can't be read; no queue keeps a record from being saved
    """
    found: dict[tuple[str, int], int] = {}
    if not (logs or is_store_root(path, fs)):
        return found
    try:
        for end in queue_ends(StoreReader(str(path), fs, commitlogs=logs)):
            if end.fault:
                warn(f"{end.topic}/{end.queue_id}: the offset of its next message is unknown: {end.fault}")
            elif not shares_records(end.topic):
                found[end.topic, end.queue_id] = end.max_offset
    except StoreError as error:
        warn(f"queues without a record start at 0: {error}")
    return found


def _consumer_offsets(path: Path, fs: Filesystem, report: SalvageReport) -> ConsumerOffsets:
    """The offsets beside a store's log; a file that can't be read keeps no record from being saved."""
    try:
        return read_consumer_offsets(path / "config", fs) if is_store_root(path, fs) else {}
    except StoreError as error:
        report.unread_offsets = str(error)
        return {}


def _evidence(path: Path, fs: Filesystem, logs: Sequence[Path], delay_levels_ms: tuple[int, ...]) -> Evidence:
    """The store's queues and index; none where the path is no store's root."""
    if not (logs or is_store_root(path, fs)):
        return Evidence.none()
    return Evidence.of(StoreReader(str(path), fs, commitlogs=logs), delay_levels_ms)


def _taken(piece: Piece, report: SalvageReport, coverage: LogCoverage, evidence: Evidence) -> Iterator[SalvagedRun]:
    match piece:
        case TornRecord():
            report.torn.append(piece)
        case Skipped():
            coverage.add_skipped(piece)
        case BlankEnd():
            coverage.add_blank(piece)
        case SalvagedRun():
            coverage.add_run(piece)
            yield from evidence.review(piece)


def _without(run: SalvagedRun, seen: Int64Array, report: SalvageReport) -> Iterator[SalvagedRun]:
    """The run without the records whose log offsets were seen."""
    known = is_in_sorted(run.log_offsets, seen)
    if not known.any():
        yield run
        return
    report.duplicate_count += int(known.sum())
    for first, stop in stretches(known):
        if not known[first]:
            yield run.rows(first, stop)
