"""Findings on the sizes of segments, on gaps between them and on overlaps; no record is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from store.files.numbered import odd_size, usual_size
from store.files.store_reader import StoredFile, StoreReader
from store.formats.wording import amount_is
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
        is_followed = file.size > 0 and file.number + size in starts
        end = max(end, file.number + (size if is_followed else file.size))
