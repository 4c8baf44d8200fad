"""Walk one segment with CRCs and compare it with the units and entries that point there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from store.files.store_reader import StoredFile, StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.columns import DamageReason
from store.formats.run import Int64Array, Run
from store.formats.sets import distinct, is_in
from store.formats.topics import shares_records
from store.formats.wording import amount_is
from store.structures.commitlog.property_crc import wrong_property_crcs
from store.structures.commitlog.resync import has_bytes_in
from store.structures.commitlog.scan import Blank, Damage, End, ScanRules
from store.structures.commitlog.slices import LogSlice, walk_slice
from store.structures.consumequeue.batch_units import last_offsets
from store.structures.consumequeue.compare import (
    ExpectedUnits,
    FoundUnits,
    Queue,
    QueuedRecord,
    UnitsOfSegment,
    continuity_findings,
    differing_queues,
    follows,
    queue_differences,
    rows_by_queue,
)
from store.structures.consumequeue.dispatch_faults import dispatch_faults
from store.structures.consumequeue.expect import Units, expected_units, with_light_units
from store.structures.consumequeue.numbering import QueueTable
from store.structures.consumequeue.overwritten import are_given_again
from store.structures.consumequeue.survey import QueueFile
from store.structures.findings import (
    BAD_CRC,
    BAD_LENGTH,
    BAD_PROPERTIES_CRC,
    BAD_SELF_OFFSET,
    COPIED_CRC,
    STALE_TAIL,
    TIME_BACKWARDS,
    Finding,
    group_findings,
)
from store.structures.index.compare import EntryFile, index_differences
from store.structures.index.expect import Entries, expected_entries
from store.structures.index.survey import IndexFile
from store.verbs.check.seams import SegmentSummary

NO_INTS: Int64Array = np.empty(0, np.int64)
NO_UNITS = Units([], NO_INTS, NO_INTS, NO_INTS, NO_INTS, NO_INTS)
NO_ENTRIES = Entries(NO_INTS, NO_INTS, NO_INTS)


@dataclass(frozen=True, slots=True)
class Derived:
    """The derived files that may point into one segment."""

    queues: tuple[QueueFile, ...]
    indexes: tuple[IndexFile, ...]
    has_index: bool


class Surveys:
    """All surveyed files, found by the segment that they point into."""

    def __init__(self, surveys: Sequence[QueueFile | IndexFile]) -> None:
        self._queues = [s for s in surveys if isinstance(s, QueueFile)]
        self.indexes = [s for s in surveys if isinstance(s, IndexFile)]
        self._low = np.array([s.low for s in self._queues], np.int64)
        self._high = np.array([s.high for s in self._queues], np.int64)

    def of_segment(self, segment: StoredFile) -> Derived:
        """Return the files that may point into this segment."""
        low, high = segment.number, segment.number + segment.size
        queues = np.flatnonzero((self._low < high) & (self._high >= low))
        indexes = tuple(s for s in self.indexes if s.low < high and s.high >= low)
        return Derived(tuple(self._queues[i] for i in queues), indexes, bool(self.indexes))


@dataclass(frozen=True, slots=True)
class SegmentRules:
    """The facts of the store for the walk of a segment.

    horizon     records from this log offset on are left to the writer; None for the whole log
    has_light   whether a message has units in the further queues that its properties list, too
    confirmed   in controller mode: records that end after this log offset may lack units and entries
    is_indexed  whether the broker writes index files; if not, older ones may end anywhere in the log
    knows_delays  whether the delay levels are the broker's own: given as a setting
    """

    delay_levels_ms: tuple[int, ...]
    horizon: int | None = None
    has_light: bool = False
    confirmed: int | None = None
    is_indexed: bool = True
    knows_delays: bool = False


OnWalked = Callable[[Mapping[int, int]], None]
"""Gets the bytes walked so far of a segment, by its number."""


def check_segment(
    files: StoreReader,
    segment: StoredFile,
    derived: Derived,
    rules: SegmentRules,
    on_walked: OnWalked = lambda walked: None,
) -> tuple[list[Finding], SegmentSummary]:
    """Find all damage in one segment, and in the units and entries that point into it."""
    return _SegmentCheck(files, segment, derived, rules, on_walked).run()


class _QueueStates:
    """Per queue of a segment, by number: its name, and the first and the last record met in the log."""

    def __init__(self) -> None:
        self.numbers: dict[Queue, int] = {}
        self.names: list[Queue] = []
        self.is_shared: np.ndarray = np.empty(0, bool)
        self._of_table: Int64Array = NO_INTS
        self._first, self._first_place = NO_INTS, NO_INTS
        self._last: Int64Array = np.empty((len(QueuedRecord._fields), 0), np.int64)

    def numbers_of(self, units: Units) -> Int64Array:
        """Return the number of each unit's queue; the arrays grow with the queues."""
        known = len(self._of_table)
        new = [self.numbers.setdefault(queue, len(self.numbers)) for queue in units.queues[known:]]
        self._of_table = np.concatenate([self._of_table, np.array(new, np.int64)])
        if len(self.names) < len(self.numbers):
            self._add_names(list(self.numbers)[len(self.names) :])
        return self._of_table[units.queue]

    def _add_names(self, names: list[Queue]) -> None:
        self.names += names
        self.is_shared = np.concatenate([self.is_shared, np.array([shares_records(name) for name, _ in names], bool)])
        blank = np.full(len(names), -1, np.int64)
        self._first, self._first_place = (np.concatenate([one, blank]) for one in (self._first, self._first_place))
        self._last = np.hstack([self._last, np.tile(blank, (len(self._last), 1))])

    def broken(
        self, queues: Int64Array, units: Units, taken: Int64Array
    ) -> Iterator[tuple[int, QueuedRecord, Int64Array]]:
        """Yield each queue with a break in its queue offsets: number, the record before, rows.

        taken  the last queue offset of each unit's record
        """
        if not len(queues):
            return
        rows = rows_by_queue(queues)
        ordered, offsets, taken, places = queues[rows], units.queue_offset[rows], taken[rows], units.log_offset[rows]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        stops = np.append(starts[1:], len(rows))
        these = ordered[starts]
        new = self._first_place[these] < 0
        last = np.where(new, np.stack([offsets[starts] - 1, offsets[starts] - 1, places[starts]]), self._last[:, these])
        before, taken_before = np.roll(offsets, 1), np.roll(taken, 1)
        before[starts], taken_before[starts] = last[0], last[1]
        self._first[these[new]] = offsets[starts[new]]
        self._first_place[these[new]] = places[starts[new]]
        self._last[:, these] = offsets[stops - 1], taken[stops - 1], places[stops - 1]
        breaks = np.flatnonzero(~follows(offsets, before, taken_before))
        for i in distinct(np.searchsorted(starts, breaks, "right") - 1):
            yield int(these[i]), QueuedRecord(*last[:, i].tolist()), rows[starts[i] : stops[i]]

    def ends(self) -> dict[Queue, tuple[int, int, QueuedRecord]]:
        """Return the first and the last record of each queue, as a summary has them."""
        lasts = map(QueuedRecord._make, self._last.T.tolist())
        rows = zip(self.names, self._first.tolist(), self._first_place.tolist(), lasts, strict=False)
        return {queue: (first, place, last) for queue, first, place, last in rows if place >= 0}


class _SegmentCheck:
    """The check of one segment. Units and entries were compared up to the log offset `cursor`."""

    def __init__(
        self, files: StoreReader, segment: StoredFile, derived: Derived, rules: SegmentRules, on_walked: OnWalked
    ) -> None:
        self.files = files
        self.on_walked = on_walked
        self.segment = segment
        self.name = files.name_of(segment.path)
        self.rules = rules
        self.findings: list[Finding] = []
        self.seam = SegmentSummary(segment.path, segment.number)
        self.cursor = segment.number
        self.end = min(segment.number + segment.size, rules.horizon or segment.number + segment.size)
        self.has_index = derived.has_index
        self.states = _QueueStates()
        self.table = QueueTable()
        self.light_numbers: dict[Queue, int] = {}
        self.units = UnitsOfSegment(files, derived.queues, self.cursor, self.end, self.states.numbers)
        self.indexes = [EntryFile(files, file) for file in derived.indexes]
        self._of_index: Future[list[Finding]] | None = None

    def run(self) -> tuple[list[Finding], SegmentSummary]:
        """Walk the segment, and return its findings and its summary."""
        stop = self.end - self.segment.number
        if stop > 0:
            with ThreadPoolExecutor(1) as self._aside:
                self._walk(LogSlice(self.segment.path, self.segment.number, self.segment.size, 0, stop))
                self._compare(None, self.end)
                self._collect()
        self.seam.queues = self.states.ends()
        return group_findings(self.findings), self.seam

    def _walk(self, part: LogSlice) -> None:
        for step in walk_slice(self.files, part, ScanRules(check_crc=True), with_bad_bodies=True):
            if isinstance(step, Run):
                if self._is_overwritten(step):
                    self.findings.pop()
                    self.seam.outcome = "end"
                    self._check_behind(self.seam.end or 0)
                    return
                self._check_run(step)
                self.on_walked({self.segment.number: step.end - self.segment.number})
            elif isinstance(step, Damage):
                self.seam.outcome = "damage"
                kind = BAD_CRC if step.reason == DamageReason.BAD_CRC else BAD_LENGTH
                self._add(kind, step.file_start + step.position, step.describe_reason())
            else:
                self.seam.outcome = "blank" if isinstance(step, Blank) else "end"
                if isinstance(step, End) and self.rules.horizon is None:
                    self._check_behind(step.file_start + step.position)

    def _is_overwritten(self, run: Run) -> bool:
        """Return whether the damage before the run is the rest of an overwritten record.

        The records before the damage end the log: the run is older, and no unit points to it, or its queue offsets
        were given again.
        """
        if self.seam.outcome != "damage" or not self.seam.record_count or self.rules.horizon is not None:
            return False
        is_older = int(run.columns.store_timestamp_ms[0]) < self.seam.last_ms
        if not is_older or self.files.segments()[-1].number != self.segment.number:
            return False
        segment = StoredSegment(self.files, self.segment)
        return self.units.is_exhausted or are_given_again(segment, self.seam.end or 0, run)

    def _add(self, kind: str, offset: int, detail: str, count: int = 1) -> None:
        self.findings.append(Finding(kind, self.name, int(offset), count=count, detail=detail))

    def _check_behind(self, end: int) -> None:
        """Find records past the log's end in this segment: a truncation left them, and they can reappear.

        The file is allocated in full, so only its written ranges are read.
        """
        path, position = self.segment.path, end - self.segment.number + 1
        ranges = list(self.files.written_ranges(path, position))
        if not has_bytes_in(ranges, lambda start, stop: self.files.read(path, start, stop - start)):
            return
        part = LogSlice(path, self.segment.number, self.segment.size, position, min(ranges[-1][1], self.segment.size))
        count, first = 0, -1
        for step in walk_slice(self.files, part, ScanRules(check_crc=False)):
            if isinstance(step, Run):
                first = step.start if first < 0 else first
                count += step.count
        if count:
            self._add(STALE_TAIL, first, f"{amount_is(count, 'record')} past the end at {end}", count)

    def _check_run(self, run: Run) -> None:
        columns, places, seam = run.columns, run.log_offsets, self.seam
        for i in np.flatnonzero(columns.log_offset != places):
            self._add(BAD_SELF_OFFSET, places[i], f"the record says {int(columns.log_offset[i])}")
        times = columns.store_timestamp_ms
        before = np.concatenate(([seam.last_ms if seam.record_count else times[0]], times[:-1]))
        for i in np.flatnonzero(times < before):
            seconds = (int(before[i]) - int(times[i])) / 1000
            self._add(TIME_BACKWARDS, places[i], f"{seconds:.3f} s before the record in front of it")
        if not seam.record_count:
            seam.first, seam.first_ms = run.start, int(times[0])
        for log_offset, is_copy in wrong_property_crcs(run):
            detail = "its other bytes are right" if is_copy else "the body has its CRC: other bytes are damaged"
            self._add(COPIED_CRC if is_copy else BAD_PROPERTIES_CRC, log_offset, detail)
        seam.last_ms, seam.end = int(times[-1]), run.end
        seam.newest_ms = max(seam.newest_ms, int(times.max()))
        seam.record_count += run.count
        self._compare(run, run.end)

    def _compare(self, run: Run | None, end: int) -> None:
        """Compare the records of `run`, from the cursor to `end`, with the units and entries there."""
        starts = NO_INTS if run is None else run.log_offsets
        units = NO_UNITS if run is None else self._expected(run)
        queues = self.states.numbers_of(units)
        if run is not None:
            self._count(run, units, queues)
        self._compare_units(self.units.below(end), units, queues, starts)
        self._collect()
        self._of_index = self._aside.submit(self._compare_index, run, self.cursor, end)
        self.cursor = end

    def _compare_index(self, run: Run | None, start: int, end: int) -> list[Finding]:
        """Compare the keys of the records from `start` to `end` with the index entries there."""
        entries = NO_ENTRIES if run is None else self._expected_entries(run)
        if self.has_index:
            return list(index_differences(self.name, self.indexes, start, end, entries, run))
        if len(entries.log_offset):
            self.seam.first_key = int(entries.log_offset[0]) if self.seam.first_key < 0 else self.seam.first_key
            self.seam.key_count += len(entries.log_offset)
        return []

    def _collect(self) -> None:
        """Wait for the running comparison with the index, and add its findings."""
        if self._of_index is not None:
            self.findings += self._of_index.result()

    def _expected_entries(self, run: Run) -> Entries:
        """Return the entries that the index should have; beside a writer, those up to its newest entry.

        A writer fills the queues before the index.
        """
        entries = expected_entries(run)
        reached = max((index.file.high for index in self.indexes), default=-1)
        if self.rules.confirmed is not None:
            return entries.up_to(max(reached, self.rules.confirmed - 1))
        is_whole = self.rules.horizon is None and self.rules.is_indexed
        return entries if is_whole else entries.up_to(reached)

    def _expected(self, run: Run) -> Units:
        units = expected_units(run, self.rules.delay_levels_ms, self.table)
        if not self.rules.has_light:
            return units
        units, light = with_light_units(run, units, self.table, self.light_numbers)
        for kind, log_offset, detail in dispatch_faults(light):
            self._add(kind, log_offset, detail)
        return units

    def _count(self, run: Run, units: Units, queues: Int64Array) -> None:
        """Find queue offsets that the records leave out or have twice."""
        more = last_offsets(run) - run.columns.queue_offset
        taken = units.queue_offset
        if more.any():
            taken = taken + more[np.searchsorted(run.log_offsets, units.log_offset)]
        for number, last, rows in self.states.broken(queues, units, taken):
            columns = units.queue_offset[rows], taken[rows], units.log_offset[rows]
            self.findings += continuity_findings(self.name, self.states.names[number], last, *columns)

    def _compare_units(self, found: FoundUnits, expected: Units, queues: Int64Array, starts: Int64Array) -> None:
        names = self.states.names
        if self.rules.confirmed is not None:
            due = expected.log_offset + expected.size <= self.rules.confirmed
            due |= is_in(expected.log_offset, found.units["log_offset"].astype(np.int64))
            expected, queues = Units(expected.queues, *(column[due] for column in expected[1:])), queues[due]
        unknown = self.states.is_shared & (not self.rules.has_light)
        differing = differing_queues(found, expected, queues, starts, unknown)
        if not len(differing):
            return
        found_rows, expected_rows = _rows_of(found.queue, differing), _rows_of(queues, differing)
        for number, mine, theirs in zip(differing.tolist(), found_rows, expected_rows, strict=True):
            pieces = found.pieces(self.units.names, mine)
            wanted = ExpectedUnits.of(names[number], expected, theirs)
            wanted = wanted._replace(knows_delays=self.rules.knows_delays)
            self.findings += queue_differences(self.name, pieces, wanted, starts)


def _rows_of(queues: Int64Array, numbers: Int64Array) -> Iterator[Int64Array]:
    """Yield the rows of each of these queues, in the order of `numbers`."""
    rows = rows_by_queue(queues)
    ordered = queues[rows]
    for start, stop in zip(np.searchsorted(ordered, numbers), np.searchsorted(ordered, numbers, "right"), strict=True):
        yield rows[start:stop]
