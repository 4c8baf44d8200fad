"""check: the log against the queues, the index and the checkpoint, in both directions. Reads only.

    1. files     the list of segments, and every queue file and index file alone     (coverage.py, survey.py)
    2. segments  one walk of each segment, with CRCs; on the way each stretch of log is held against the units and
                 entries that point into it: what is there on one side only, or differs, is a finding
                 (segment.py, units.py, entries.py)
    3. seams     what only shows between segments: times, queue offsets, records behind the log's end; the checkpoint
                 (seams.py)

Every step is a function of its inputs that gives back values. `check` is handed the way to map such a function over
files: threads of this process, or Spark tasks. Nothing grows with the log but the numbers of step 1: a few per file.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from store.check.coverage import DerivedFile, check_derived, derived_files, segment_list_findings
from store.check.findings import Finding, group_findings
from store.check.parallel import ordered_map
from store.check.seams import SegmentSummary, closing_findings
from store.check.segment import Derived, check_segment, derived_of
from store.check.survey import IndexFile, QueueFile
from store.config import StoreConfig
from store.disk.store_reader import StoredFile, StoreReader
from store.errors import BadRequest

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class MapTasks(Protocol):
    """Maps a picklable function over items; gives its answers in the items' order."""

    def __call__(self, work: Callable[[Item], Answer], items: Iterable[Item], /) -> Iterator[Answer]: ...


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
    map_tasks: MapTasks | None = None,
) -> Iterator[Finding]:
    """Findings as they are found: first of the files, then segment by segment, then of what lies between.

    map_tasks  how the work on the files is done; by default in threads of this process
    """
    progress = progress or Progress()
    map_tasks = map_tasks or partial(ordered_map, threads=options.threads)
    segments = files.segments()
    require_within(files, segments, options.from_offset)
    yield from group_findings(segment_list_findings(files, segments))
    surveys: list[QueueFile | IndexFile] = []
    for found in map_tasks(partial(_survey, files, segments), derived_files(files)):
        yield from (one for one in found if isinstance(one, Finding))
        surveys += (one for one in found if not isinstance(one, Finding))
    chosen = [segment for segment in segments if is_chosen(segment, options)]
    progress.bytes_in_all = sum(segment.size for segment in chosen)
    seams: list[SegmentSummary] = []
    shares = ((segment, derived_of(segment, surveys)) for segment in _in_time(chosen, options, progress))
    for size, findings, seam in map_tasks(partial(_check_segment, files, options), shares):
        yield from findings
        seams.append(seam)
        progress.bytes_done += size
        if on_progress is not None:
            on_progress(progress)
    if seams:
        seams = [*seams_before(files, segments, options), *seams]
    yield from closing_findings(files, segments, seams, [s for s in surveys if isinstance(s, IndexFile)])


def _survey(
    files: StoreReader, segments: Sequence[StoredFile], file: DerivedFile
) -> list[QueueFile | IndexFile | Finding]:
    return check_derived(files, file, segments)


def _check_segment(
    files: StoreReader, options: CheckOptions, share: tuple[StoredFile, Derived]
) -> tuple[int, list[Finding], SegmentSummary]:
    segment, derived = share
    findings, seam = check_segment(files, segment, derived, options.delay_levels_ms)
    if options.cold:
        files.forget(segment.path)
    return segment.size, findings, seam


def _in_time(segments: Sequence[StoredFile], options: CheckOptions, progress: Progress) -> Iterator[StoredFile]:
    """The segments, until the time is up; notes in `progress` where to go on."""
    deadline = None if options.max_seconds is None else time.monotonic() + options.max_seconds
    for segment in segments:
        if deadline is not None and time.monotonic() >= deadline:
            progress.stopped_at = segment.number
            return
        yield segment


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
