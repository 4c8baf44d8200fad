"""What shows only between segments: times, queue offsets, records behind the log's end; and the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from store.check.findings import CHECKPOINT_AHEAD, STALE_TAIL, TIME_BACKWARDS, Finding, group_findings
from store.check.survey import IndexFile
from store.check.units import Queue, continuity_findings
from store.disk.store_reader import StoredFile, StoreReader
from store.formats.checkpoint_page import decode_checkpoint


@dataclass(slots=True)
class SegmentSummary:
    """What a segment's neighbours must fit: its ends, in time, in log and in every queue.

    outcome  how its walk ended: end, blank or damage
    end      where its last record ends; None without records
    queues   per queue the first queue offset, that record's log offset, and the last queue offset
    """

    path: str
    file_start: int
    outcome: str = "end"
    first: int = -1
    end: int | None = None
    record_count: int = 0
    first_ms: int = 0
    last_ms: int = 0
    queues: dict[Queue, tuple[int, int, int]] = field(default_factory=dict)


def closing_findings(
    files: StoreReader, segments: Sequence[StoredFile], seams: Sequence[SegmentSummary], indexes: Sequence[IndexFile]
) -> Iterator[Finding]:
    """What a check ends with: what lies between the segments that were walked, and the checkpoint.

    segments  the whole log
    seams     of the segments that were walked, in log order. The checkpoint is looked at when they reach the log's end
              without a gap and hold a record, or are all there are
    """
    yield from group_findings(seam_findings(files, segments, seams))
    reach_the_end = [s.file_start for s in seams] == [s.number for s in segments[len(segments) - len(seams) :]]
    if reach_the_end and (len(seams) == len(segments) or any(seam.record_count for seam in seams)):
        yield from checkpoint_findings(files, seams, indexes)


def seam_findings(
    files: StoreReader, segments: Sequence[StoredFile], seams: Sequence[SegmentSummary]
) -> Iterator[Finding]:
    """Findings between segments, in log order. Segments that were left out break the chain."""
    rank = {segment.number: i for i, segment in enumerate(segments)}
    last: dict[Queue, int] = {}
    for before, seam in zip([None, *seams], seams, strict=False):
        if before is not None and rank[seam.file_start] != rank[before.file_start] + 1:
            before, last = None, {}
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
    files: StoreReader, seams: Sequence[SegmentSummary], indexes: Sequence[IndexFile]
) -> Iterator[Finding]:
    """Times that the checkpoint promises and no file reaches."""
    if not files.exists("checkpoint"):
        return
    page = decode_checkpoint(bytes(files.read("checkpoint")))
    log_ms = max((seam.last_ms for seam in seams), default=0)
    index_ms = max((index.end_timestamp_ms for index in indexes), default=0)
    name = files.name_of("checkpoint")
    promises = (
        ("physic", page.physic_ms, log_ms),
        ("logics", page.logics_ms, log_ms),
        ("index", page.index_ms, index_ms),
    )
    for at, (word, told, found) in enumerate(promises):
        if told > found:
            detail = f"{word} time {told} is {told - found} ms later than anything in the files"
            yield Finding(CHECKPOINT_AHEAD, name, at * 8, detail=detail)
