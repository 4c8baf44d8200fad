"""Findings between segments: times, queue offsets, records past the log's end, and a lost index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from store.files.store_reader import StoredFile, StoreReader
from store.formats.wording import amount, amount_is
from store.structures.consumequeue.compare import Queue, QueuedRecord, continuity_findings
from store.structures.findings import LOST_INDEX, STALE_TAIL, TIME_BACKWARDS, Finding


@dataclass(slots=True)
class SegmentSummary:
    """The first and last record of a segment: in time, in the log and in every queue.

    outcome  how its walk ended: end, blank or damage
    end      the log offset at which its last record ends; None without records
    queues   per queue the first queue offset, that record's log offset, and the last record
    first_key, key_count  without index files: the log offset of the first record with a key, and the number of keys
    """

    path: str
    file_start: int
    outcome: str = "end"
    first: int = -1
    end: int | None = None
    record_count: int = 0
    first_ms: int = 0
    last_ms: int = 0
    newest_ms: int = 0
    queues: dict[Queue, tuple[int, int, QueuedRecord]] = field(default_factory=dict)
    first_key: int = -1
    key_count: int = 0


def seam_findings(
    files: StoreReader, segments: Sequence[StoredFile], seams: Sequence[SegmentSummary]
) -> Iterator[Finding]:
    """Yield findings between segments, in log order; no comparison crosses a skipped segment."""
    rank = {segment.number: i for i, segment in enumerate(segments)}
    last: dict[Queue, QueuedRecord] = {}
    for before, seam in zip([None, *seams], seams, strict=False):
        if before is not None and rank[seam.file_start] != rank[before.file_start] + 1:
            before, last = None, {}
        name = files.name_of(seam.path)
        for queue, (first, place, end) in seam.queues.items():
            if queue in last:
                offsets = np.array([first])
                yield from continuity_findings(name, queue, last[queue], offsets, offsets, np.array([place]))
            last[queue] = end
        if before is None or not before.record_count or not seam.record_count:
            continue
        if seam.first_ms < before.last_ms:
            detail = f"{(before.last_ms - seam.first_ms) / 1000:.3f} s before the record in front of it"
            yield Finding(TIME_BACKWARDS, name, seam.first, detail=detail)
        if before.outcome == "end":
            detail = f"{amount_is(seam.record_count, 'record')} past the end at {before.end}"
            yield Finding(STALE_TAIL, name, seam.first, count=seam.record_count, detail=detail)


def lost_index_findings(files: StoreReader, seams: Sequence[SegmentSummary]) -> Iterator[Finding]:
    """Yield a finding if records have keys and the store has no index file."""
    count = sum(seam.key_count for seam in seams)
    if count:
        first = next(seam.first_key for seam in seams if seam.key_count)
        detail = f"no file for {amount(count, 'key')}, the first at log offset {first}"
        yield Finding(LOST_INDEX, files.name_of("index"), 0, count=count, detail=detail)
