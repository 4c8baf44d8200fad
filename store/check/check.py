"""check: the log against the queues, the index and the checkpoint, in both directions. Reads only.

    1. files     the list of segments, and every queue file and index file alone     (coverage.py, survey.py)
    2. segments  one walk of each segment, with CRCs; on the way each stretch of log is held against the units and
                 entries that point into it: what is there on one side only, or differs, is a finding
                 (segment.py, units.py, entries.py)
    3. seams     what only shows between segments: times, queue offsets, records behind the log's end; the checkpoint
                 (seams.py)

Every step is a function of its inputs that gives back values, so that `audit` runs the same ones as Spark tasks and
finds the same. Nothing grows with the log but the numbers of step 1: a few per file.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from store.check.coverage import check_derived, derived_files, segment_list_findings
from store.check.findings import Finding, group_findings
from store.check.parallel import ordered_map
from store.check.seams import SegmentSummary, closing_findings
from store.check.segment import check_segment, derived_of
from store.check.survey import IndexFile, QueueFile
from store.config import StoreConfig
from store.disk.store_reader import StoredFile, StoreReader
from store.errors import BadRequest


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """sample_percent  of the segments, the same ones every time
    from_offset     start at the segment that holds it; what lies between it and the segment before is found as well
    threads         that work side by side (default: one for each processor); the findings do not depend on it
    cold            whether the page cache is to drop each segment that was walked
    """

    sample_percent: float = 100.0
    max_seconds: float | None = None
    from_offset: int = 0
    threads: int | None = None
    cold: bool = False
    delay_levels_ms: tuple[int, ...] = StoreConfig().delay_levels_ms


@dataclass(slots=True)
class Progress:
    """How far a check came; `stopped_at` is the log offset to go on from when time ran out."""

    bytes_done: int = 0
    bytes_in_all: int = 0
    stopped_at: int | None = None


def check(
    files: StoreReader,
    options: CheckOptions = CheckOptions(),
    progress: Progress | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Iterator[Finding]:
    """Findings as they are found: first of the files, then segment by segment, then of what lies between."""
    progress = progress or Progress()
    deadline = None if options.max_seconds is None else time.monotonic() + options.max_seconds
    segments = files.segments()
    require_within(files, segments, options.from_offset)
    yield from group_findings(segment_list_findings(files, segments))
    surveys: list[QueueFile | IndexFile] = []
    for found in _surveyed(files, segments, options.threads):
        if isinstance(found, Finding):
            yield found
        else:
            surveys.append(found)
    chosen = [s for s in segments if is_chosen(s, options)]
    progress.bytes_in_all = sum(segment.size for segment in chosen)
    seams: list[SegmentSummary] = []

    def in_time() -> Iterator[StoredFile]:
        for segment in chosen:
            if deadline is not None and time.monotonic() >= deadline:
                progress.stopped_at = segment.number
                return
            yield segment

    def walked(segment: StoredFile) -> tuple[StoredFile, list[Finding], SegmentSummary]:
        found = check_segment(files, segment, derived_of(segment, surveys), options.delay_levels_ms)
        if options.cold:
            files.forget(segment.path)
        return segment, *found

    for segment, findings, seam in ordered_map(walked, in_time(), options.threads):
        yield from findings
        seams.append(seam)
        progress.bytes_done += segment.size
        if on_progress is not None:
            on_progress(progress)
    if seams:
        seams = [*seams_before(files, segments, options), *seams]
    yield from closing_findings(files, segments, seams, [s for s in surveys if isinstance(s, IndexFile)])


def is_chosen(segment: StoredFile, options: CheckOptions) -> bool:
    """Is this segment in the sample, and not before the offset to go on from?"""
    if segment.number + segment.size <= options.from_offset:
        return False
    # A hash of the name, so that every run and every engine samples the same segments.
    return zlib.crc32(segment.path.encode()) % 10_000 < options.sample_percent * 100


def require_within(files: StoreReader, segments: Sequence[StoredFile], from_offset: int) -> None:
    """Refuses an offset at or behind the end of the last segment: no segment would be checked."""
    end = segments[-1].number + segments[-1].size if segments else 0
    if from_offset and from_offset >= end:
        raise BadRequest(
            f"nothing to check from log offset {from_offset} on: the last segment ends at {end}",
            file=files.name_of("commitlog"),
        )


def seams_before(files: StoreReader, segments: Sequence[StoredFile], options: CheckOptions) -> list[SegmentSummary]:
    """The seams that a check of the log before `from_offset` ended with: back to the last segment with records."""
    seams: list[SegmentSummary] = []
    whole_log = replace(options, from_offset=0)
    for segment in reversed([s for s in segments if s.number + s.size <= options.from_offset]):
        if not is_chosen(segment, whole_log):
            break
        _, seam = check_segment(files, segment, derived_of(segment, ()), options.delay_levels_ms)
        seams.insert(0, seam)
        if seam.record_count:
            break
    return seams


def _surveyed(
    files: StoreReader, segments: Sequence[StoredFile], threads: int | None
) -> Iterator[QueueFile | IndexFile | Finding]:
    for found in ordered_map(lambda file: check_derived(files, file, segments), derived_files(files), threads):
        yield from found
