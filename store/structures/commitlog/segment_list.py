"""Findings on the sizes of segments, on gaps between them and on overlaps.

No record is read, but the blank behind the last record of a lone segment: it reaches to the segment's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from store.files.numbered import odd_size, usual_size
from store.files.store_reader import StoredFile, StoreReader
from store.formats.java import INT_MAX
from store.formats.run import Run
from store.formats.wording import amount_is
from store.structures.commitlog.resync import readable_behind
from store.structures.commitlog.scan import Blank, Segment, scan_segment
from store.structures.findings import (
    EMPTY_SEGMENT,
    FOREIGN_FILE,
    MISSING_SEGMENT,
    ODD_SIZE,
    WRONG_SIZE,
    Finding,
    effect_on_start,
)


def segment_list_findings(files: StoreReader, segments: Sequence[StoredFile], size: int = 0) -> Iterator[Finding]:
    """Yield segments of an odd size, gaps between segments, and segments inside of others.

    segments  with those of 0 bytes: only a lost length, not a retention, leaves the name of an expired segment
    size      the expected length of a segment; 0 for that of most segments
    """
    if not size and (odd := odd_size(segments)):
        only = next(file for file in segments if file.size)
        yield Finding(ODD_SIZE, files.name_of(only.path), only.number, detail=odd)
    size = size or usual_size(segments)
    end, starts = segments[0].number if segments else 0, {file.number for file in segments}
    for file in segments:
        name = files.name_of(file.path)
        if not file.size or file.size != size:
            is_last = file is segments[-1]
            detail = f"{file.size} bytes" + (f", expected {size}" if size else "")
            detail += f", and a segment has {INT_MAX} at most" if file.size > INT_MAX else ""
            detail += f"; {effect_on_start(file.size, is_last=is_last)}"
            kind = EMPTY_SEGMENT if is_last and not file.size else WRONG_SIZE
            yield Finding(kind, name, file.number, detail=detail)
        if file.number > end:
            detail = f"the log goes from {end} to {file.number}: {amount_is(file.number - end, 'byte')} not there"
            yield Finding(MISSING_SEGMENT, name, end, detail=detail)
        elif file.number < end:
            detail = f"begins at {file.number}, inside of the segment before it, which ends at {end}"
            yield Finding(FOREIGN_FILE, name, file.number, detail=detail)
        # Behind a file that is too long or too short the next one is in its place, and none is missing.
        is_followed = bool(size and file.size) and file.number + size in starts
        end = max(end, file.number + (size if is_followed else file.size))


def end_of_records(segment: Segment) -> int:
    """Return the log offset after the last readable record of a segment; its start without one."""
    steps = readable_behind([segment], segment.file_start, behind_end=False)
    return max((step.end for step in steps if isinstance(step, Run)), default=segment.file_start)


def size_by_blank(segment: Segment, log_offset: int) -> int:
    """Return the length of a segment by a blank at this log offset; its own one if there is none."""
    position = log_offset - segment.file_start
    step = next(scan_segment(segment, position)) if 0 <= position < segment.size else None
    return position + step.declared_size if isinstance(step, Blank) else segment.size


def describe_blank(segment: Segment, size: int) -> str:
    """Describe a segment whose blank gives it another length."""
    unless = f"unless its mappedFileSizeCommitLog is {segment.size}, no broker starts with it"
    return f"{segment.size} bytes, and the blank behind its last record gives it {size}: {unless}"
