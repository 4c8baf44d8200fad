"""check: the log against the queues, the index and the checkpoint, in both directions. Reads only.

    1. files     the list of segments, and every queue file and index file alone     (store.survey)
    2. segments  one walk of each segment, with CRCs; on the way each stretch of log is held against the units and
                 entries that point into it: what is there on one side only, or differs, is a finding
    3. seams     what only shows between segments: times, queue offsets, records behind the log's end; the checkpoint

Every step is a function of its inputs that gives back values, so that `audit` runs the same ones as Spark tasks and
finds the same. Nothing grows with the log but the numbers of step 1: a few per file.
"""

from __future__ import annotations

import itertools
import time
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from store.commitlog.scan import Blank, Damage, End, ScanRules
from store.config import StoreConfig
from store.expected import Entries, Ints, Units, expected_entries, expected_units, log_offsets
from store.files import StoredFile, StoreFiles
from store.findings import (
    BAD_CRC,
    BAD_LENGTH,
    BAD_SELF_OFFSET,
    CHECKPOINT_AHEAD,
    FOREIGN_FILE,
    INDEX_ENTRY_NOWHERE,
    MISSING_INDEX_ENTRY,
    MISSING_SEGMENT,
    MISSING_UNIT,
    QUEUE_DUPLICATE,
    QUEUE_GAP,
    QUEUE_SHIFT,
    STALE_TAIL,
    TIME_BACKWARDS,
    UNIT_DIFFERS,
    UNIT_NOWHERE,
    UNIT_WRONG_RECORD,
    WRONG_SIZE,
    Finding,
    gather,
)
from store.formats.checkpoint_page import decode_checkpoint
from store.formats.columns import DamageReason
from store.formats.message import LMQ_PREFIX, SCHEDULE_TOPIC
from store.formats.queue_unit import UNIT_SIZE
from store.kernels.run import Run
from store.parts import Part, walk_part
from store.survey import IndexFile, QueueFile, entries_of, survey_index, survey_queue, units_of

Queue = tuple[str, int]

# A unit whose tags code is less than this holds a position in the extension file plus Long.MIN_VALUE.
EXT_ADDRESS_LIMIT = -(1 << 63) + (1 << 48)


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """sample_percent  of the segments, the same ones every time; from_offset  start at the segment that holds it"""

    sample_percent: float = 100.0
    max_seconds: float | None = None
    from_offset: int = 0
    delay_levels_ms: tuple[int, ...] = StoreConfig().delay_levels_ms


@dataclass(slots=True)
class Seam:
    """What a segment's neighbours must fit: its ends, in time, in log and in every queue. `end` is None
    without records."""

    path: str
    file_start: int
    outcome: str = "end"
    first: int = -1
    end: int | None = None
    record_count: int = 0
    first_ms: int = 0
    last_ms: int = 0
    queues: dict[Queue, tuple[int, int, int]] = field(default_factory=dict)  # first, its log offset, last


@dataclass(frozen=True, slots=True)
class Derived:
    """The derived files that may point into one segment."""

    queues: tuple[QueueFile, ...]
    indexes: tuple[IndexFile, ...]
    has_index: bool


@dataclass(slots=True)
class Progress:
    """How far a check came; `stopped_at` is the log offset to go on from when time ran out."""

    bytes_done: int = 0
    bytes_in_all: int = 0
    stopped_at: int | None = None


def check(
    files: StoreFiles,
    options: CheckOptions = CheckOptions(),
    progress: Progress | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Iterator[Finding]:
    """Findings as they are found: first of the files, then segment by segment, then of what lies between."""
    progress = progress or Progress()
    deadline = None if options.max_seconds is None else time.monotonic() + options.max_seconds
    segments = files.segments()
    yield from gather(segment_list_findings(files, segments))
    surveys: list[QueueFile | IndexFile] = []
    for found in _surveyed(files, segments):
        if isinstance(found, Finding):
            yield found
        else:
            surveys.append(found)
    chosen = [s for s in segments if is_chosen(s, options)]
    progress.bytes_in_all = sum(segment.size for segment in chosen)
    seams: list[Seam] = []
    for segment in chosen:
        if deadline is not None and time.monotonic() >= deadline:
            progress.stopped_at = segment.number
            break
        findings, seam = check_segment(files, segment, derived_of(segment, surveys), options.delay_levels_ms)
        yield from findings
        seams.append(seam)
        progress.bytes_done += segment.size
        if on_progress is not None:
            on_progress(progress)
    yield from gather(seam_findings(files, seams))
    if len(seams) == len(segments):
        yield from checkpoint_findings(files, seams, [s for s in surveys if isinstance(s, IndexFile)])


def is_chosen(segment: StoredFile, options: CheckOptions) -> bool:
    """Is this segment in the sample, and not before the offset to go on from?"""
    if segment.number + segment.size <= options.from_offset:
        return False
    # A hash of the name, so that every run and every engine samples the same segments.
    return zlib.crc32(segment.path.encode()) % 10_000 < options.sample_percent * 100


# Step 1: files.


def segment_list_findings(files: StoreFiles, segments: Sequence[StoredFile]) -> Iterator[Finding]:
    for path, fault in files.foreign_in_commitlog():
        yield Finding(FOREIGN_FILE, files.name_of(path), 0, detail=f"{fault}; a 4.x broker does not start with it")
    for before, file in itertools.pairwise(segments):
        expected = before.number + before.size
        if file.size != segments[0].size:
            detail = f"{file.size} bytes, the first has {segments[0].size}"
            yield Finding(WRONG_SIZE, files.name_of(file.path), file.number, detail=detail)
        if file.number != expected:
            detail = (
                f"the log goes from {expected} to {file.number}: {file.number - expected} bytes are not there"
            )
            yield Finding(MISSING_SEGMENT, files.name_of(file.path), expected, detail=detail)


def _surveyed(files: StoreFiles, segments: Sequence[StoredFile]) -> Iterator[QueueFile | IndexFile | Finding]:
    for topic, queue_id in files.queues():
        yield from check_queue(files, topic, queue_id, segments)
    for file in files.index_files():
        yield from check_index(files, file, segments)


def check_queue(
    files: StoreFiles, topic: str, queue_id: int, segments: Sequence[StoredFile]
) -> Iterator[QueueFile | Finding]:
    """A queue's survey, and its units that point where no segment is."""
    findings: list[Finding] = []
    for found in survey_queue(files, topic, queue_id):
        if isinstance(found, Finding):
            findings.append(found)
            continue
        yield found
        if found.first_unit >= 0 and not _covers(segments, found.low, found.high):
            units = units_of(files.read(found.path))[found.first_unit : found.last_unit + 1]
            out = np.flatnonzero(
                _outside(segments, units["log_offset"].astype(np.int64)) & (units["size"] > 0)
            )
            if len(out):
                unit = found.start // UNIT_SIZE + found.first_unit + int(out[0])
                where = int(units["log_offset"][out[0]])
                findings.append(
                    Finding(
                        UNIT_NOWHERE,
                        files.name_of(found.path),
                        unit,
                        topic,
                        queue_id,
                        len(out),
                        f"points to {where}, where no segment is",
                    )
                )
    yield from gather(findings)


def check_index(
    files: StoreFiles, file: StoredFile, segments: Sequence[StoredFile]
) -> Iterator[IndexFile | Finding]:
    """An index file's survey, and its entries that point where no segment is."""
    findings: list[Finding] = []
    for found in survey_index(files, file):
        if isinstance(found, Finding):
            findings.append(found)
            continue
        yield found
        if found.count > 1 and not _covers(segments, found.low, found.high):
            entries = entries_of(files.read(found.path), found.slot_count, found.count)
            out = np.flatnonzero(_outside(segments, entries["log_offset"].astype(np.int64))[1:]) + 1
            if len(out):
                where = int(entries["log_offset"][out[0]])
                detail = f"points to {where}, where no segment is"
                name = files.name_of(found.path)
                findings.append(
                    Finding(INDEX_ENTRY_NOWHERE, name, int(out[0]), count=len(out), detail=detail)
                )
    yield from gather(findings)


def _covers(segments: Sequence[StoredFile], low: int, high: int) -> bool:
    """Does one unbroken run of segments hold both offsets, or is all below `high` expired or there?"""
    outside = _outside(segments, np.array([low, high], np.int64))
    unbroken = all(a.number + a.size == b.number for a, b in itertools.pairwise(segments))
    return unbroken and not outside.any()


def _outside(segments: Sequence[StoredFile], offsets: Ints) -> np.ndarray:
    """Which offsets lie in no segment; those before the first one belong to expired files and count as inside."""
    if not segments:
        return np.ones(len(offsets), bool)
    starts = np.array([s.number for s in segments], np.int64)
    ends = starts + np.array([s.size for s in segments], np.int64)
    at = np.searchsorted(starts, offsets, "right") - 1
    return np.asarray((at >= 0) & (offsets >= ends[np.maximum(at, 0)]))


def derived_of(segment: StoredFile, surveys: Iterable[QueueFile | IndexFile]) -> Derived:
    """The surveyed files that may point into this segment."""
    low, high = segment.number, segment.number + segment.size
    near = [s for s in surveys if s.low < high and s.high >= low]
    return Derived(
        tuple(s for s in near if isinstance(s, QueueFile)),
        tuple(s for s in near if isinstance(s, IndexFile)),
        any(isinstance(s, IndexFile) for s in surveys),
    )


# Step 2: one segment.


def check_segment(
    files: StoreFiles, segment: StoredFile, derived: Derived, delay_levels_ms: tuple[int, ...]
) -> tuple[list[Finding], Seam]:
    """Everything wrong in one segment and with what points into it."""
    return _SegmentCheck(files, segment, derived, delay_levels_ms).run()


class _SegmentCheck:
    """The walk of one segment. `cursor` is the log offset up to which units and entries were compared."""

    def __init__(
        self, files: StoreFiles, segment: StoredFile, derived: Derived, delay_levels_ms: tuple[int, ...]
    ) -> None:
        self.files = files
        self.segment = segment
        self.name = files.name_of(segment.path)
        self.delay_levels_ms = delay_levels_ms
        self.findings: list[Finding] = []
        self.seam = Seam(segment.path, segment.number)
        self.cursor = segment.number
        self.has_index = derived.has_index
        self.queues: dict[Queue, list[_UnitFile]] = {}
        for file in derived.queues:
            self.queues.setdefault((file.topic, file.queue_id), []).append(_UnitFile(files, file))
        self.indexes = [_EntryFile(files, file) for file in derived.indexes]

    def run(self) -> tuple[list[Finding], Seam]:
        for step in _walk(self.files, self.segment):
            if isinstance(step, Run):
                self._check_run(step)
            elif isinstance(step, Damage):
                self._add_damage(step)
            else:
                self.seam.outcome = "blank" if isinstance(step, Blank) else "end"
                if isinstance(step, End):
                    self._check_behind(step.file_start + step.position)
        self._compare(None, self.segment.number + self.segment.size)
        return gather(self.findings), self.seam

    def _add(self, kind: str, offset: int, detail: str, count: int = 1, **where: object) -> None:
        self.findings.append(Finding(kind, self.name, int(offset), count=count, detail=detail, **where))  # type: ignore[arg-type]

    def _add_damage(self, damage: Damage) -> None:
        kind = BAD_CRC if damage.reason == DamageReason.BAD_CRC else BAD_LENGTH
        self.seam.outcome = "damage"
        self._add(kind, damage.file_start + damage.position, damage.reason.describe())

    def _check_behind(self, end: int) -> None:
        """Records behind the log's end in this segment: a cut left them, and they can come back."""
        position = end - self.segment.number + 1
        part = Part(self.segment.path, self.segment.number, self.segment.size, position, self.segment.size)
        count, first = 0, -1
        for step in walk_part(self.files, part, ScanRules(check_crc=False)):
            if isinstance(step, Run):
                first = step.start if first < 0 else first
                count += step.count
        if count:
            self._add(STALE_TAIL, first, f"{count} records lie behind the end at {end}", count)

    def _check_run(self, run: Run) -> None:
        columns, places = run.columns, log_offsets(run)
        for i in np.flatnonzero(columns.log_offset != places):
            self._add(BAD_SELF_OFFSET, places[i], f"the record says {int(columns.log_offset[i])}")
        times = columns.store_timestamp_ms
        before = np.concatenate(([self.seam.last_ms if self.seam.record_count else times[0]], times[:-1]))
        for i in np.flatnonzero(times < before):
            self._add(
                TIME_BACKWARDS, places[i], f"{int(before[i] - times[i])} ms before the record in front of it"
            )
        if not self.seam.record_count:
            self.seam.first, self.seam.first_ms = run.start, int(times[0])
        self.seam.last_ms, self.seam.end = int(times[-1]), run.end
        self.seam.record_count += run.count
        self._compare(run, run.end)

    def _compare(self, run: Run | None, end: int) -> None:
        """Holds the log from the cursor to `end`, whose records are `run`, against the units and entries there."""
        starts = np.empty(0, np.int64) if run is None else log_offsets(run)
        expected = None if run is None else expected_units(run, self.delay_levels_ms)
        found = (
            {}
            if expected is None
            else {q: np.flatnonzero(expected.queue == i) for i, q in enumerate(expected.queues)}
        )
        for queue in sorted({*found, *self.queues}):
            rows = found.get(queue, np.empty(0, np.int64))
            if expected is not None and len(rows):
                self._check_continuity(queue, expected, rows)
            self._compare_queue(queue, expected, rows, starts, end)
        if self.has_index:
            self._compare_index(None if run is None else expected_entries(run), starts, end)
        self.cursor = end

    def _check_continuity(self, queue: Queue, units: Units, rows: Ints) -> None:
        offsets, places = units.queue_offset[rows], units.log_offset[rows]
        first, first_place, last = self.seam.queues.get(
            queue, (int(offsets[0]), int(places[0]), int(offsets[0]) - 1)
        )
        self.findings += continuity_findings(self.name, queue, last, offsets, places)
        self.seam.queues[queue] = (first, first_place, int(offsets[-1]))

    def _compare_queue(self, queue: Queue, units: Units | None, rows: Ints, starts: Ints, end: int) -> None:
        pieces = [
            piece
            for file in self.queues.get(queue, ())
            if (piece := file.between(self.cursor, end)) is not None
        ]
        total = sum(len(piece.units) for piece in pieces)
        if units is not None and len(pieces) == 1 and _agree(pieces[0], units, rows):
            return
        if not total and not len(rows):
            return
        if units is None:
            units = Units([], *[np.empty(0, np.int64)] * 5)
        self.findings += _queue_differences(self.name, queue, pieces, units, rows, starts)

    def _compare_index(self, entries: Entries | None, starts: Ints, end: int) -> None:
        hashes = np.empty(0, np.int64) if entries is None else entries.key_hash
        offsets = np.empty(0, np.int64) if entries is None else entries.log_offset
        in_order = ((offsets - self.cursor) << 32) | hashes
        found = [(file, *file.between(self.cursor, end)) for file in self.indexes]
        seen = [np.empty(0, np.int64), *(self._codes_of(there) for _, _, there in found)]
        if np.array_equal(np.concatenate(seen), in_order):
            return
        wanted = np.unique(in_order)
        for (file, numbers, there), codes in zip(found, seen[1:], strict=True):
            bad = np.flatnonzero(~np.isin(codes, wanted))
            for rows, why in _split_by_start(there["log_offset"].astype(np.int64), bad, starts):
                detail = f"points to {int(there['log_offset'][rows[0]])}, {why}"
                self.findings.append(
                    Finding(
                        INDEX_ENTRY_NOWHERE, file.name, int(numbers[rows[0]]), count=len(rows), detail=detail
                    )
                )
        missing = np.setdiff1d(wanted, np.concatenate(seen))
        if len(missing):
            where = int(missing[0] >> 32) + self.cursor
            self._add(MISSING_INDEX_ENTRY, where, "keys of this record are in no index file", len(missing))

    def _codes_of(self, entries: np.ndarray) -> Ints:
        """Log offset, counted from the cursor, and hash of each entry as one number."""
        places = entries["log_offset"].astype(np.int64) - self.cursor
        return np.asarray((places << 32) | (entries["key_hash"].astype(np.int64) & 0xFFFFFFFF))


def _walk(files: StoreFiles, segment: StoredFile) -> Iterator[Run | Blank | End | Damage]:
    """A segment's runs and outcomes. A record whose body alone is bad is both: first Damage, then a Run of it."""
    position = 0
    while position < segment.size:
        part = Part(segment.path, segment.number, segment.size, position, segment.size)
        last: Run | Blank | End | Damage | None = None
        for last in walk_part(files, part, ScanRules(check_crc=True), go_on=False):
            yield last
        if not isinstance(last, Damage):
            return
        position = last.file_start + last.position - segment.number
        if last.reason == DamageReason.BAD_CRC:
            one = replace(part, start=position, stop=position + 1)
            for step in walk_part(files, one, ScanRules(check_crc=False), go_on=False):
                if isinstance(step, Run):
                    position = step.end - segment.number - 1
                    yield step
        position += 1


def continuity_findings(name: str, queue: Queue, last: int, offsets: Ints, places: Ints) -> Iterator[Finding]:
    """Queue offsets of one queue's records in log order, after `last`: each must be the one before plus one."""
    steps = np.diff(np.concatenate(([last], offsets)))
    for kind, rows in ((QUEUE_GAP, np.flatnonzero(steps > 1)), (QUEUE_DUPLICATE, np.flatnonzero(steps < 1))):
        if len(rows):
            i = rows[0]
            detail = f"queue offset {int(offsets[i])} follows {int(offsets[i] - steps[i])}"
            yield Finding(kind, name, int(places[i]), *queue, len(rows), detail)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Units of one queue file that point into a stretch of log; `numbers` are their queue offsets."""

    name: str
    numbers: Ints
    units: np.ndarray


class _Offsets:
    """The log offsets of units or entries as a sequence, for bisecting without converting all of them."""

    def __init__(self, column: np.ndarray) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, i: int) -> int:
        return int(self.column[i])


class _UnitFile:
    def __init__(self, files: StoreFiles, file: QueueFile) -> None:
        self.file = file
        self.name = files.name_of(file.path)
        self.units = units_of(files.read(file.path))[file.first_unit : file.last_unit + 1]
        self.first = file.start // UNIT_SIZE + file.first_unit

    def between(self, low: int, high: int) -> _Piece | None:
        """The units with low <= log offset < high; None when there are none."""
        rows = _rows_between(self.units["log_offset"], low, high, self.file.rises)
        if not self.file.rises:
            rows = rows[self.units["size"][rows] > 0]
        return _Piece(self.name, rows + self.first, self.units[rows]) if len(rows) else None


class _EntryFile:
    def __init__(self, files: StoreFiles, file: IndexFile) -> None:
        self.file = file
        self.name = files.name_of(file.path)
        self.entries = entries_of(files.read(file.path), file.slot_count, file.count)[1:]

    def between(self, low: int, high: int) -> tuple[Ints, np.ndarray]:
        """Numbers and entries with low <= log offset < high."""
        rows = _rows_between(self.entries["log_offset"], low, high, self.file.rises)
        return rows + 1, self.entries[rows]


def _rows_between(column: np.ndarray, low: int, high: int, rises: bool) -> Ints:
    if rises:
        offsets = _Offsets(column)
        return np.arange(bisect_left(offsets, low), bisect_left(offsets, high))
    return np.flatnonzero((column >= low) & (column < high))


def _agree(piece: _Piece, units: Units, rows: Ints) -> bool:
    return (
        len(piece.units) == len(rows)
        and np.array_equal(piece.units["log_offset"], units.log_offset[rows])
        and np.array_equal(piece.units["size"], units.size[rows])
        and np.array_equal(piece.units["tags_code"], units.tags_code[rows])
        and np.array_equal(piece.numbers, units.queue_offset[rows])
    )


def _queue_differences(
    segment: str, queue: Queue, pieces: Sequence[_Piece], units: Units, rows: Ints, starts: Ints
) -> Iterator[Finding]:
    """What differs between one queue's units and the units that its records should have.

    A unit belongs to the record it points to. Where a record has several, the one at its queue offset is the right one,
    else the first: the others are duplicates.
    """
    offsets = units.log_offset[rows]
    is_met = np.zeros(len(rows), bool)
    for piece in sorted(pieces, key=lambda p: int(p.numbers[0])):
        there = piece.units["log_offset"].astype(np.int64)
        at = np.minimum(np.searchsorted(offsets, there), max(len(offsets) - 1, 0))
        own = offsets[at] == there if len(offsets) else np.zeros(len(there), bool)
        yield from _strays(piece, queue, there, np.flatnonzero(~own), starts)
        mine, record = np.flatnonzero(own), at[own]
        exact = units.queue_offset[rows][record] == piece.numbers[mine]
        yield from _shifts(piece, queue, mine, record, exact, is_met, units, rows)
        good, its = mine[exact], record[exact]
        is_met[record] = True
        differs = (piece.units["size"][good] != units.size[rows][its]) | (
            _codes(queue[0], piece.units["tags_code"][good], units.tags_code[rows][its])
        )
        if differs.any():
            i = np.flatnonzero(differs)[0]
            unit = piece.units[good[i]]
            detail = (
                f"size {int(unit['size'])} tags {int(unit['tags_code'])}, "
                f"the record has {int(units.size[rows][its][i])} and {int(units.tags_code[rows][its][i])}"
            )
            yield Finding(
                UNIT_DIFFERS, piece.name, int(piece.numbers[good[i]]), *queue, int(differs.sum()), detail
            )
    missing = np.flatnonzero(~is_met)
    if len(missing):
        detail = f"no unit for queue offset {int(units.queue_offset[rows][missing[0]])}"
        yield Finding(MISSING_UNIT, segment, int(offsets[missing[0]]), *queue, len(missing), detail)


def _codes(topic: str, told: np.ndarray, wanted: Ints) -> np.ndarray:
    """Where tags codes differ. Addresses in the extension file say nothing of the hash; no such file is as large
    as the addresses that EXT_ADDRESS_LIMIT rules out.

    A broker that redispatches while it recovers knows no delay levels yet, and gives delayed messages the plain hash.
    """
    values = told.astype(np.int64)
    differs = (values != wanted) & (values >= EXT_ADDRESS_LIMIT)
    if topic == SCHEDULE_TOPIC:
        differs &= values >= 1 << 31
    return np.asarray(differs)


def _strays(piece: _Piece, queue: Queue, there: Ints, rows: Ints, starts: Ints) -> Iterator[Finding]:
    if queue[0].startswith(LMQ_PREFIX):
        rows = rows[~np.isin(there[rows], starts)]
    for picked, why in _split_by_start(there, rows, starts):
        kind = UNIT_NOWHERE if why == NO_RECORD else UNIT_WRONG_RECORD
        detail = f"points to {int(there[picked[0]])}, {why if kind == UNIT_NOWHERE else 'a record of another queue'}"
        yield Finding(kind, piece.name, int(piece.numbers[picked[0]]), *queue, len(picked), detail)


NO_RECORD = "where no record begins"
NO_KEY = "whose record has no such key"


def _split_by_start(there: Ints, rows: Ints, starts: Ints) -> Iterator[tuple[Ints, str]]:
    """The rows that point at no record's start, and those that point at one."""
    at_start = np.isin(there[rows], starts)
    for picked, why in ((rows[~at_start], NO_RECORD), (rows[at_start], NO_KEY)):
        if len(picked):
            yield picked, why


def _shifts(
    piece: _Piece,
    queue: Queue,
    mine: Ints,
    record: Ints,
    exact: np.ndarray,
    is_met: np.ndarray,
    units: Units,
    rows: Ints,
) -> Iterator[Finding]:
    """Units of the right record at another place: duplicates where the record has a better one, else shifted."""
    off = np.flatnonzero(~exact)
    if not len(off):
        return
    first = np.zeros(len(record), bool)
    first[np.unique(record, return_index=True)[1]] = True
    has_exact = np.isin(record, record[exact]) | is_met[record]
    for kind, picked in (
        (QUEUE_DUPLICATE, off[(has_exact | ~first)[off]]),
        (QUEUE_SHIFT, off[(~has_exact & first)[off]]),
    ):
        if len(picked):
            i = picked[0]
            number, wanted = int(piece.numbers[mine[i]]), int(units.queue_offset[rows][record[i]])
            detail = f"holds the record of queue offset {wanted}, {number - wanted:+d} places off"
            yield Finding(kind, piece.name, number, *queue, len(picked), detail)


# Step 3: between segments.


def seam_findings(files: StoreFiles, seams: Sequence[Seam]) -> Iterator[Finding]:
    """What shows only when segments are put together, in log order. Segments that were left out break the chain."""
    last: dict[Queue, int] = {}
    for before, seam in zip([None, *seams], seams, strict=False):
        name = files.name_of(seam.path)
        for queue, (first, place, end) in seam.queues.items():
            if queue in last:
                yield from continuity_findings(name, queue, last[queue], np.array([first]), np.array([place]))
            last[queue] = end
        if before is None or not before.record_count or not seam.record_count:
            continue
        if seam.first_ms < before.last_ms:
            detail = f"{before.last_ms - seam.first_ms} ms before the record in front of it"
            yield Finding(TIME_BACKWARDS, name, seam.first, detail=detail)
        if before.outcome == "end":
            detail = f"{seam.record_count} records lie behind the end at {before.end}"
            yield Finding(STALE_TAIL, name, seam.first, count=seam.record_count, detail=detail)


def checkpoint_findings(
    files: StoreFiles, seams: Sequence[Seam], indexes: Sequence[IndexFile]
) -> Iterator[Finding]:
    """Times that the checkpoint promises and no file reaches."""
    if not files.exists("checkpoint"):
        return
    page = decode_checkpoint(files.read("checkpoint").to_pybytes())
    log_ms = max((seam.last_ms for seam in seams), default=0)
    index_ms = max((index.end_timestamp_ms for index in indexes), default=0)
    name = files.name_of("checkpoint")
    for at, (word, told, found) in enumerate(
        (
            ("physic", page.physic_ms, log_ms),
            ("logics", page.logics_ms, log_ms),
            ("index", page.index_ms, index_ms),
        )
    ):
        if told > found:
            detail = f"{word} time {told} is {told - found} ms later than anything in the files"
            yield Finding(CHECKPOINT_AHEAD, name, at * 8, detail=detail)
