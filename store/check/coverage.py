"""Whether the segments lie end to end, and hold every place that a queue or an index file points to.

Only offsets are compared here, so nothing is walked. What lies before the first segment has expired and is no fault.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from store.check.findings import (
    FOREIGN_FILE,
    INDEX_ENTRY_NOWHERE,
    MISSING_SEGMENT,
    UNIT_NOWHERE,
    WRONG_SIZE,
    Finding,
    group_findings,
)
from store.check.survey import IndexFile, QueueFile, survey_index, survey_queue
from store.disk.store_reader import StoredFile, StoreReader
from store.dispatch.expected import Ints
from store.formats.derived import entries_of, units_of
from store.formats.queue_unit import UNIT_SIZE

Survey = TypeVar("Survey", QueueFile, IndexFile)


def segment_list_findings(files: StoreReader, segments: Sequence[StoredFile]) -> Iterator[Finding]:
    """What the list of segments says by itself: strangers, odd sizes, and gaps."""
    for path, fault in files.foreign_in_commitlog():
        yield Finding(FOREIGN_FILE, files.name_of(path), 0, detail=f"{fault}; a 4.x broker does not start with it")
    for before, file in itertools.pairwise(segments):
        name = files.name_of(file.path)
        if file.size != segments[0].size:
            detail = f"{file.size} bytes, the first has {segments[0].size}"
            yield Finding(WRONG_SIZE, name, file.number, detail=detail)
        expected = before.number + before.size
        if file.number != expected:
            gap = file.number - expected
            detail = f"the log goes from {expected} to {file.number}: {gap} bytes are not there"
            yield Finding(MISSING_SEGMENT, name, expected, detail=detail)


DerivedFile = tuple[str, int] | StoredFile
"""A queue, by topic and queue id, or an index file."""


def derived_files(files: StoreReader) -> list[DerivedFile]:
    """All queues and index files."""
    return [*files.queues(), *files.index_files()]


def check_derived(
    files: StoreReader, file: DerivedFile, segments: Sequence[StoredFile]
) -> list[QueueFile | IndexFile | Finding]:
    """The surveys and findings of one of them."""
    if isinstance(file, StoredFile):
        return list(check_index(files, file, segments))
    return list(check_queue(files, *file, segments))


def check_queue(
    files: StoreReader, topic: str, queue_id: int, segments: Sequence[StoredFile]
) -> Iterator[QueueFile | Finding]:
    """A queue's survey, and its units that point where no segment is."""
    return _with_findings(survey_queue(files, topic, queue_id), lambda file: _units_outside(files, file, segments))


def _units_outside(files: StoreReader, file: QueueFile, segments: Sequence[StoredFile]) -> Iterator[Finding]:
    if file.first_unit < 0 or _covers(segments, file.low, file.high):
        return
    units = units_of(files.read(file.path))[file.first_unit : file.last_unit + 1]
    out = np.flatnonzero(_outside(segments, units["log_offset"].astype(np.int64)) & (units["size"] > 0))
    if len(out):
        unit = file.start // UNIT_SIZE + file.first_unit + int(out[0])
        detail = _points_outside(units["log_offset"][out[0]])
        name = files.name_of(file.path)
        yield Finding(UNIT_NOWHERE, name, unit, file.topic, file.queue_id, len(out), detail)


def check_index(files: StoreReader, file: StoredFile, segments: Sequence[StoredFile]) -> Iterator[IndexFile | Finding]:
    """An index file's survey, and its entries that point where no segment is."""
    return _with_findings(survey_index(files, file), lambda found: _entries_outside(files, found, segments))


def _entries_outside(files: StoreReader, file: IndexFile, segments: Sequence[StoredFile]) -> Iterator[Finding]:
    if file.count <= 1 or _covers(segments, file.low, file.high):
        return
    entries = entries_of(files.read(file.path), file.slot_count, file.count)
    out = np.flatnonzero(_outside(segments, entries["log_offset"].astype(np.int64))[1:]) + 1
    if len(out):
        detail = _points_outside(entries["log_offset"][out[0]])
        yield Finding(INDEX_ENTRY_NOWHERE, files.name_of(file.path), int(out[0]), count=len(out), detail=detail)


def _with_findings(
    found: Iterable[Survey | Finding], look_at: Callable[[Survey], Iterable[Finding]]
) -> Iterator[Survey | Finding]:
    """The surveys, then what was found with them and what `look_at` finds in each, gathered."""
    findings: list[Finding] = []
    for one in found:
        if isinstance(one, Finding):
            findings.append(one)
        else:
            yield one
            findings += look_at(one)
    yield from group_findings(findings)


def _points_outside(log_offset: int) -> str:
    return f"points to {int(log_offset)}, where no segment is"


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
