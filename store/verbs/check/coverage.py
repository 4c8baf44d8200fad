"""Findings on units and entries that point outside of all segments, and on the length of a lone one.

Only offsets are compared; no record but a blank is read. Offsets before the first segment have expired and are no
fault, unless the log lost all of its records.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from store.files.numbered import odd_size, usual_size
from store.files.store_reader import StoredFile, StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.derived import entries_of, units_of
from store.formats.java import INT_MAX
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array
from store.structures.commitlog.segment_list import describe_blank, size_by_blank
from store.structures.consumequeue.survey import QueueFile, QueueListing
from store.structures.findings import INDEX_ENTRY_NOWHERE, ODD_SIZE, UNIT_NOWHERE, Finding
from store.structures.index.survey import IndexFile
from store.verbs.check.seams import SegmentSummary


class LogExtent:
    """The log offsets that the segments hold; offsets from a writer's `horizon` on count as held."""

    def __init__(self, segments: Sequence[StoredFile], horizon: int | None = None) -> None:
        self._horizon = np.iinfo(np.int64).max if horizon is None else horizon
        self._starts = np.array([s.number for s in segments], np.int64)
        self._ends = self._starts + np.array([s.size for s in segments], np.int64)
        self._is_unbroken = all(a.number + a.size == b.number for a, b in itertools.pairwise(segments))

    @property
    def start(self) -> int:
        """The log offset of the first segment; 0 without one."""
        return int(self._starts[0]) if len(self._starts) else 0

    def misses(self, offsets: Int64Array) -> np.ndarray:
        """Mark the offsets that are in no segment, except expired ones before the first."""
        if not len(self._starts):
            return np.asarray(offsets < self._horizon)
        at = np.searchsorted(self._starts, offsets, "right") - 1
        is_outside = (at >= 0) & (offsets >= self._ends[np.maximum(at, 0)])
        return np.asarray(is_outside & (offsets < self._horizon))

    def may_miss(self, low: Int64Array, high: Int64Array) -> np.ndarray:
        """Mark the ranges low … high that are not inside one unbroken run of segments."""
        return np.asarray(self.misses(low) | self.misses(high) | (not self._is_unbroken))


def blank_findings(files: StoreReader, log: Sequence[StoredFile], seams: Iterable[SegmentSummary]) -> Iterator[Finding]:
    """Yield a finding on a lone segment whose blank gives it another length."""
    if len(log) != 1 or odd_size(log) or not usual_size(log):
        return
    for seam in seams:
        segment = StoredSegment(files, log[0])
        size = size_by_blank(segment, seam.end or seam.file_start)
        if size != segment.size:
            yield Finding(ODD_SIZE, files.name_of(seam.path), seam.file_start, detail=describe_blank(segment, size))


def outside_findings(files: StoreReader, surveys: Sequence[QueueFile | IndexFile], log: LogExtent) -> Iterator[Finding]:
    """Yield units and entries that point outside of all segments."""
    surveys = [s for s in surveys if s.low <= s.high]
    low, high = (np.array([getattr(s, name) for s in surveys], np.int64) for name in ("low", "high"))
    for i in np.flatnonzero(log.may_miss(low, high)):
        survey = surveys[i]
        if isinstance(survey, QueueFile):
            yield from _units_outside(files, survey, log)
        else:
            yield from _entries_outside(files, survey, log)


def lost_log_findings(
    files: StoreReader, queues: Iterable[QueueListing], segments: Sequence[StoredFile]
) -> Iterator[Finding]:
    """Yield units before the first segment of a log that lost all of its records."""
    start = segments[0].number if segments else 0
    for topic, queue_id, file in ((*one[:2], file) for one in queues for file in one.files):
        units = units_of(files.salvage(file.path, None, UNIT_SIZE).buffer)
        # Pre-blank units have the size of the greatest int.
        out = np.flatnonzero((units["size"] > 0) & (units["size"] < INT_MAX) & (units["log_offset"] < start))
        if len(out):
            detail = (
                f"points to {int(units['log_offset'][out[0]])}, and the log, which begins at {start}, has no record"
            )
            unit = file.number // UNIT_SIZE + int(out[0])
            yield Finding(UNIT_NOWHERE, files.name_of(file.path), unit, topic, queue_id, len(out), detail)


def _units_outside(files: StoreReader, file: QueueFile, log: LogExtent) -> Iterator[Finding]:
    units = units_of(files.salvage(file.path, None, UNIT_SIZE).buffer)[file.first_unit : file.last_unit + 1]
    out = np.flatnonzero(log.misses(units["log_offset"].astype(np.int64)) & (units["size"] > 0))
    if len(out):
        unit = file.start // UNIT_SIZE + file.first_unit + int(out[0])
        detail = _points_outside(units["log_offset"][out[0]])
        yield Finding(UNIT_NOWHERE, files.name_of(file.path), unit, file.topic, file.queue_id, len(out), detail)


def _entries_outside(files: StoreReader, file: IndexFile, log: LogExtent) -> Iterator[Finding]:
    entries = entries_of(files.salvage(file.path).buffer, file.slot_count, file.count)
    out = np.flatnonzero(log.misses(entries["log_offset"].astype(np.int64))[1:]) + 1
    if len(out):
        detail = _points_outside(entries["log_offset"][out[0]])
        yield Finding(INDEX_ENTRY_NOWHERE, files.name_of(file.path), int(out[0]), count=len(out), detail=detail)


def _points_outside(log_offset: int) -> str:
    return f"points to {int(log_offset)}, where no segment is"
