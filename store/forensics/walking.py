"""Walks of the log that hold little memory: walked pages are let go of."""

from __future__ import annotations

from collections.abc import Iterator

from store.commitlog.scan import ScanRules, Step
from store.commitlog.slices import LogSlice, walk_slice
from store.disk.filesystem import Filesystem
from store.disk.store_reader import StoredFile, StoreReader
from store.formats.run import Run

RELEASE_BYTES = 64 << 20


def whole_segment(segment: StoredFile) -> LogSlice:
    """The slice that is all of a segment."""
    return LogSlice(segment.path, segment.number, segment.size, 0, segment.size, is_exact=True)


def walk_part(reader: StoreReader, part: LogSlice) -> Iterator[Step]:
    """The steps of walk_slice, behind damage too. A Run's buffer holds until the next step is asked for."""
    fs, released, last = Filesystem(), part.start, None
    for step in walk_slice(reader, part, ScanRules()):
        yield step
        if isinstance(step, Run):
            last, end = step, step.end - part.file_start
            if end - released >= RELEASE_BYTES:
                fs.let_go(step.buffer, released, end)
                released = end
    if last is not None:
        fs.let_go(last.buffer, released, last.end - part.file_start)
