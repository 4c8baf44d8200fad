"""Salvage a store, a folder or one file: records in log order, each once, and the gaps between them.

Files are walked in log order. A record whose log offset an earlier piece had is a duplicate: the file is there twice,
or its bytes were copied.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from store.broker_line import BrokerLine, broker_line
from store.config import StoreConfig
from store.errors import BadRequest, StoreError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.given import check_kind, check_path
from store.formats.run import Int64Array
from store.formats.sets import distinct, is_in_sorted
from store.kernels.native import clock_ms
from store.layout import StoreLayout
from store.opened.arguments import checks_arguments
from store.opened.delays import (
    DELAY_LEVELS,
    describe_assumed_delays,
    describe_inferred_delays,
    refuse_mixed_delays,
    stored_levels,
)
from store.opened.detect import detect_line, find_other_queues, make_layout
from store.opened.reach import reach_store
from store.opened.sizes import SEGMENT_SIZE, assumed_sizes
from store.structures.consumequeue.lost_ends import lost_ends
from store.structures.tables.consumer_offsets import ConsumerOffsets, read_consumer_offsets
from store.verbs.queue_ends import queue_ends
from store.verbs.recover.lost import LossReport
from store.verbs.salvage.derived_files import DerivedFiles
from store.verbs.salvage.evidence import Evidence
from store.verbs.salvage.grade import BlankEnd, Grade, Piece, SalvagedRun, Skipped, TornRecord, stretches
from store.verbs.salvage.log_gaps import Gap, LogCoverage, PlacedSource
from store.verbs.salvage.losses import LostOps, SalvageLosses
from store.verbs.salvage.new_store import NewStore, OnProgress, Salvaged, write_new_store
from store.verbs.salvage.sources import config_of, find_sources, is_store_root, with_whole_segments
from store.verbs.salvage.walk import walk_file
from store.verbs.upgrade import notes_between

WriteRuns = Callable[[Iterator[SalvagedRun]], int]


@dataclass(frozen=True, slots=True)
class UnknownEnds:
    """Why the queue offset of a queue's next message is unknown; if `topic` is None, of all queues."""

    topic: str | None
    queue_id: int | None
    fault: str


@dataclass(slots=True)
class SalvageReport:
    """Records and bytes by grade, torn records, gaps in the log and skipped bytes.

    saved             records that the target got, or would get
    skipped           bytes of files that hold no record and are in no gap
    lost              messages that the target does not get
    lost_ops          lost messages that may be op records of saved half messages
    unread_offsets    why the consumer offsets can't be read: nothing counts as unconsumed then
    first_log_offset  of the first file, -1 without a record
    units_before      queue units of records before it
    new_store         the written store; None for another target
    unknown_ends      queues whose next queue offset the new store takes from its records alone
    remarks           delays of the new store that no setting has, and a setting that it needs, for people
    """

    saved: int = 0
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
    new_store: NewStore | None = None
    unknown_ends: list[UnknownEnds] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def clear(self) -> None:
        """Clear the report for another walk."""
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


@checks_arguments
def salvage(
    path: str | Path,
    to: str | Path | WriteRuns | None = None,
    *,
    settings: Mapping[str, object] | None = None,
    keep_offsets: bool = False,
    compat: str | None = None,
    worst: Grade = Grade.PARTIAL,
    clock: Callable[[], int] = clock_ms,
    progress: OnProgress = lambda done_bytes, bytes_in_all: None,
    fs: Filesystem | None = None,
) -> SalvageReport:
    """Save every readable record of a store, a folder of segments or one file.

    settings, clock, progress and fs are as open_store takes them.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from store import Message, open_store, salvage
    >>> folder = Path(tempfile.mkdtemp())
    >>> with open_store(folder / "store", read_only=False) as store:
    ...     result = store.put(Message.of("Orders", "hello"))
    >>> report = salvage(folder / "store", folder / "saved")
    >>> report.saved, report.is_whole, open_store(folder / "saved").topics()
    (1, True, ['Orders'])

    to            folder of a new store, absent or empty, or a function that writes the runs and returns their number
                  of records; without it nothing is written
    keep_offsets  the new store keeps log offsets, and bridges gaps
    compat        the version of the broker that starts on the new store; None for the one that wrote the old
    worst         the worst grade that is taken; a new store gets certain records only

    The source is only read. Raises NotAStore, BadRequest, StoreIOError. What can't be read is in the report.
    """
    check_kind("worst", worst, Grade)
    if to is not None and not callable(to):
        check_path("to", to)
    root, fs = reach_store(path, fs)
    fs.passes_damage = True
    source, report = _Source.of(root, fs, settings or {}), SalvageReport()
    if isinstance(to, str | Path):
        line = broker_line(compat) if compat is not None else None
        _write_store(source, report, Path(to), clock, progress, keep_offsets=keep_offsets, line=line)
        return report
    taken = frozenset(list(Grade)[: list(Grade).index(worst) + 1])
    wanted = (one for one in source.runs(report, taken, progress) if one.grade in taken)
    report.saved = to(wanted) if to is not None else sum(one.count for one in wanted)
    return report


@dataclass(frozen=True, slots=True)
class _Source:
    """Files to salvage; `logs` are the folders of a log that storePathCommitLog puts elsewhere."""

    root: Path
    fs: Filesystem
    settings: Mapping[str, object]
    logs: tuple[Path, ...]
    config: StoreConfig

    @classmethod
    def of(cls, root: Path, fs: Filesystem, settings: Mapping[str, object]) -> _Source:
        layout = make_layout(root, settings, fs)
        logs = layout.commitlogs_elsewhere if layout.has_plain_log else ()
        return cls(root, fs, settings, logs, config_of(root, settings, fs, logs))

    def store_layout(self) -> StoreLayout | None:
        """Return the layout of a store; None for loose files."""
        is_store = self.logs or is_store_root(self.root, self.fs)
        return make_layout(self.root, self.settings, self.fs) if is_store else None

    def runs(self, report: SalvageReport, taken: frozenset[Grade], on_progress: OnProgress) -> Iterator[SalvagedRun]:
        levels = self.config.delay_levels_ms
        return salvage_runs(
            self.root, self.fs, report, logs=self.logs, delay_levels_ms=levels, taken=taken, on_progress=on_progress
        )


def _write_store(
    source: _Source,
    report: SalvageReport,
    to: Path,
    clock: Callable[[], int],
    progress: OnProgress,
    *,
    keep_offsets: bool,
    line: BrokerLine | None,
) -> None:
    """Write a new store. BadRequest if the entries of a delay level have several delays.

    Each walk through the source, and the building of queues and index, are equal parts of the progress.
    """
    config, fs, layout = source.config, source.fs, source.store_layout()
    gives_delays = DELAY_LEVELS in source.settings
    if layout is not None:
        given = source.settings
        report.remarks = [*assumed_sizes(layout, config, given, fs), *describe_inferred_delays(config, given)]
        if not gives_delays:
            refuse_mixed_delays(layout, fs)
        if SEGMENT_SIZE not in given:
            config, remarks = with_whole_segments(config, layout, fs)
            report.remarks += remarks
    walks = 1 + keep_offsets
    numbers = itertools.count()

    def walk() -> Iterator[SalvagedRun]:
        """Return the source's records; each walk counts again."""
        report.clear()
        return source.runs(report, frozenset([Grade.CERTAIN]), part_of_progress(next(numbers)))

    def part_of_progress(before: int) -> OnProgress:
        return lambda done, in_all: progress(before * in_all + done, (walks + 1) * in_all)

    ends = next_offsets_of(source.root, fs, source.logs, report.unknown_ends.append)
    lost = _lost_ends(source, layout, ends) if layout is not None else {}
    salvaged = Salvaged(walk, ends, lost, part_of_progress(walks))
    made = write_new_store(salvaged, to, config, fs, keep_offsets=keep_offsets, clock=clock, source=layout, line=line)
    report.new_store, report.saved = made, made.record_count
    report.remarks += made.remarks
    here = Filesystem()
    new = make_layout(to, {}, here)
    if layout is not None and line is not None:
        report.remarks += [note.detail for note in notes_between(new, detect_line(layout, fs).name, line.name, {})]
    if layout is not None and not gives_delays:
        try:
            report.remarks += describe_assumed_delays(layout, config, fs, stored_levels(new, here))
        except BadRequest as refused:
            # The new store is written, and the old one is still there to be salvaged again.
            report.remarks.append(f"{refused.reason}: give the broker's own as a setting")


def salvage_runs(
    path: Path,
    fs: Filesystem,
    report: SalvageReport,
    *,
    logs: Sequence[Path] = (),
    delay_levels_ms: tuple[int, ...] = (),
    taken: frozenset[Grade] = frozenset(Grade),
    on_progress: OnProgress = lambda done_bytes, bytes_in_all: None,
) -> Iterator[SalvagedRun]:
    """Yield every record of a store, a folder or a file, counted in `report`. Reads only.

    logs   folders of the log, if it is not below the root
    taken  the grades that the target accepts; the other records are lost
    """
    is_root = is_store_root(path, fs)
    reader = StoreReader(str(path), fs, commitlogs=logs) if logs or is_root else None
    evidence, coverage, losses = Evidence(DerivedFiles(reader), delay_levels_ms), LogCoverage(), SalvageLosses(taken)
    seen, done = np.empty(0, np.int64), 0
    sources = find_sources(path, fs, logs)
    in_all = sum(source.stop for source, _ in sources)
    on_progress(0, in_all)
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
                    on_progress(done + min(int(fresh.run.columns.position[-1]), source.stop), in_all)
                    yield fresh
        seen = distinct(np.concatenate([seen[seen >= start], *mine]))
        done += source.stop
        on_progress(done, in_all)
    segment_size = max((source.window.size for source, _ in sources), default=0)
    covered = coverage.covered_end
    log_end = evidence.log_end(covered, coverage.end, segment_size)
    if report.files:
        report.first_log_offset = _first_offset(sources, reader)
        report.gaps = coverage.gaps(sources, report.first_log_offset, log_end)
    report.skipped = coverage.unlisted(report.gaps)
    consumed: ConsumerOffsets = {}
    try:
        if is_root:
            consumed = read_consumer_offsets(path / "config", fs)
    except StoreError as error:
        report.unread_offsets = str(error)
    report.lost = losses.report(report.gaps, report.torn, covered, evidence, consumed)
    report.lost_ops = losses.ops(report.lost)
    report.units_before = evidence.units_before(report.first_log_offset)


def _first_offset(sources: Sequence[PlacedSource], reader: StoreReader | None) -> int:
    """Return the start of the first file, also of one of zeros or 0 bytes.

    Expired records take their file along.
    """
    empty = [file.number for file in reader.segments(with_empty=True) if not file.size] if reader is not None else []
    return min([*(start for _, start in sources), *empty])


def next_offsets_of(
    path: Path, fs: Filesystem, logs: Sequence[Path], warn: Callable[[UnknownEnds], None]
) -> dict[tuple[str, int], int]:
    """Return the queue offset of each queue's next message, from the store's queue files.

    warn  is called for queues that can't be read; their records are saved all the same
    """
    found: dict[tuple[str, int], int] = {}
    if not (logs or is_store_root(path, fs)):
        return found
    try:
        for end in queue_ends(StoreReader(str(path), fs, commitlogs=logs)):
            if end.fault:
                warn(UnknownEnds(end.topic, end.queue_id, end.fault))
            else:
                found[end.topic, end.queue_id] = end.max_offset
    except StoreError as error:
        warn(UnknownEnds(None, None, str(error)))
    return found


def _lost_ends(source: _Source, layout: StoreLayout, ends: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Return where the queues without files go on, by their consumers."""
    starts = [start for _, start in find_sources(source.root, source.fs, source.logs)]
    try:
        others = find_other_queues(layout, source.config, source.fs)
        found = lost_ends(layout.config, min(starts, default=0), source.fs, others)
    except StoreError:
        # The offsets can't be read; `unread_offsets` says so.
        return {}
    return {queue: offset for queue, offset in found.items() if not ends.get(queue)}


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
    """Yield the run without records at log offsets that were seen before."""
    known = is_in_sorted(run.log_offsets, seen)
    if not known.any():
        yield run
        return
    report.duplicate_count += int(known.sum())
    for first, stop in stretches(known):
        if not known[first]:
            yield run.rows(first, stop)
