"""Findings on the sizes of segments and on gaps between them; no record is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from store.files.store_reader import StoredFile, StoreReader
from store.formats.wording import amount_is
from store.structures.findings import MISSING_SEGMENT, WRONG_SIZE, Finding


def segment_list_findings(files: StoreReader, segments: Sequence[StoredFile], usual_size: int = 0) -> Iterator[Finding]:
    """Yield segments of an odd size, and gaps between segments.

    usual_size  the expected length of a segment; 0 for the first segment's
    """
    for before, file in zip([None, *segments], segments, strict=False):
        name = files.name_of(file.path)
        if file.size != (usual_size or segments[0].size):
            detail = f"{file.size} bytes, expected {usual_size or segments[0].size}; no broker starts with it"
            yield Finding(WRONG_SIZE, name, file.number, detail=detail)
        expected = file.number if before is None else before.number + before.size
        if file.number != expected:
            gap = file.number - expected
            detail = f"the log goes from {expected} to {file.number}: {amount_is(gap, 'byte')} not there"
            yield Finding(MISSING_SEGMENT, name, expected, detail=detail)
