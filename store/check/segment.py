"""One segment: its walk with CRCs, and each stretch of log against the units and entries that point there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from store.check.entries import EntryFile, index_differences
from store.check.findings import (
    BAD_CRC,
    BAD_LENGTH,
    BAD_SELF_OFFSET,
    STALE_TAIL,
    TIME_BACKWARDS,
    Finding,
    group_findings,
)
from store.check.seams import SegmentSummary
from store.check.survey import IndexFile, QueueFile
from store.check.units import ExpectedUnits, Queue, UnitFile, continuity_findings, queue_differences
from store.commitlog.resync import has_bytes_in
from store.commitlog.scan import Blank, Damage, End, ScanRules
from store.commitlog.slices import LogSlice, walk_slice
from store.disk.store_reader import StoredFile, StoreReader
from store.dispatch.expected import expected_entries, expected_units, log_offsets
from store.formats.columns import DamageReason
from store.kernels.run import Run


@dataclass(frozen=True, slots=True)
class Derived:
    """The derived files that may point into one segment."""

    queues: tuple[QueueFile, ...]
    indexes: tuple[IndexFile, ...]
    has_index: bool


def derived_of(segment: StoredFile, surveys: Iterable[QueueFile | IndexFile]) -> Derived:
    """The surveyed files that may point into this segment."""
    low, high = segment.number, segment.number + segment.size
    near = [s for s in surveys if s.low < high and s.high >= low]
    return Derived(
        tuple(s for s in near if isinstance(s, QueueFile)),
        tuple(s for s in near if isinstance(s, IndexFile)),
        any(isinstance(s, IndexFile) for s in surveys),
    )


def check_segment(
    files: StoreReader, segment: StoredFile, derived: Derived, delay_levels_ms: tuple[int, ...]
) -> tuple[list[Finding], SegmentSummary]:
    """Everything wrong in one segment and with what points into it."""
    return _SegmentCheck(files, segment, derived, delay_levels_ms).run()


class _SegmentCheck:
    """The walk of one segment. `cursor` is the log offset up to which units and entries were compared."""

    def __init__(
        self, files: StoreReader, segment: StoredFile, derived: Derived, delay_levels_ms: tuple[int, ...]
    ) -> None:
        self.files = files
        self.segment = segment
        self.name = files.name_of(segment.path)
        self.delay_levels_ms = delay_levels_ms
        self.findings: list[Finding] = []
        self.seam = SegmentSummary(segment.path, segment.number)
        self.cursor = segment.number
        self.has_index = derived.has_index
        self.queues: dict[Queue, list[UnitFile]] = {}
        for file in derived.queues:
            self.queues.setdefault((file.topic, file.queue_id), []).append(UnitFile(files, file))
        self.indexes = [EntryFile(files, file) for file in derived.indexes]

    def run(self) -> tuple[list[Finding], SegmentSummary]:
        whole = LogSlice(self.segment.path, self.segment.number, self.segment.size, 0, self.segment.size)
        for step in walk_slice(self.files, whole, ScanRules(check_crc=True), with_bad_bodies=True):
            if isinstance(step, Run):
                self._check_run(step)
            elif isinstance(step, Damage):
                self._add_damage(step)
            else:
                self.seam.outcome = "blank" if isinstance(step, Blank) else "end"
                if isinstance(step, End):
                    self._check_behind(step.file_start + step.position)
        self._compare(None, self.segment.number + self.segment.size)
        return group_findings(self.findings), self.seam

    def _add(self, kind: str, offset: int, detail: str, count: int = 1) -> None:
        self.findings.append(Finding(kind, self.name, int(offset), count=count, detail=detail))

    def _add_damage(self, damage: Damage) -> None:
        kind = BAD_CRC if damage.reason == DamageReason.BAD_CRC else BAD_LENGTH
        self.seam.outcome = "damage"
        self._add(kind, damage.file_start + damage.position, damage.describe_reason())

    def _check_behind(self, end: int) -> None:
        """Records behind the log's end in this segment: a cut left them, and they can come back.

        A segment is reserved whole, so only what was ever written there is read.
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
            self._add(STALE_TAIL, first, f"{count} records lie behind the end at {end}", count)

    def _check_run(self, run: Run) -> None:
        columns, places, seam = run.columns, log_offsets(run), self.seam
        for i in np.flatnonzero(columns.log_offset != places):
            self._add(BAD_SELF_OFFSET, places[i], f"the record says {int(columns.log_offset[i])}")
        times = columns.store_timestamp_ms
        before = np.concatenate(([seam.last_ms if seam.record_count else times[0]], times[:-1]))
        for i in np.flatnonzero(times < before):
            late_ms = int(before[i] - times[i])
            self._add(TIME_BACKWARDS, places[i], f"{late_ms} ms before the record in front of it")
        if not seam.record_count:
            seam.first, seam.first_ms = run.start, int(times[0])
        seam.last_ms, seam.end = int(times[-1]), run.end
        seam.record_count += run.count
        self._compare(run, run.end)

    def _compare(self, run: Run | None, end: int) -> None:
        """Holds the log from the cursor to `end`, whose records are `run`, against the units and entries there."""
        starts = np.empty(0, np.int64) if run is None else log_offsets(run)
        wanted = {} if run is None else self._wanted_units(run)
        for queue in sorted({*wanted, *self.queues}):
            near = (file.between(self.cursor, end) for file in self.queues.get(queue, ()))
            pieces = [piece for piece in near if piece is not None]
            if queue in wanted:
                self._check_continuity(wanted[queue])
            elif not pieces:
                continue
            its = wanted.get(queue) or ExpectedUnits.none(queue)
            self.findings += queue_differences(self.name, pieces, its, starts)
        if self.has_index:
            entries = None if run is None else expected_entries(run)
            self.findings += index_differences(self.name, self.indexes, self.cursor, end, entries, starts)
        self.cursor = end

    def _wanted_units(self, run: Run) -> dict[Queue, ExpectedUnits]:
        units = expected_units(run, self.delay_levels_ms)
        rows = (np.flatnonzero(units.queue == i) for i in range(len(units.queues)))
        return {q: ExpectedUnits.of(q, units, its) for q, its in zip(units.queues, rows, strict=True) if len(its)}

    def _check_continuity(self, units: ExpectedUnits) -> None:
        offsets, places = units.queue_offset, units.log_offset
        unknown = (int(offsets[0]), int(places[0]), int(offsets[0]) - 1)
        first, first_place, last = self.seam.queues.get(units.queue, unknown)
        self.findings += continuity_findings(self.name, units.queue, last, offsets, places)
        self.seam.queues[units.queue] = (first, first_place, int(offsets[-1]))
