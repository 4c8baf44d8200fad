"""Find gaps in the salvaged log: log offsets without a record or a blank.

    1. every salvaged stretch and every blank at a file's end covers log offsets
    2. the other log offsets between the first file's start and the log's end are gaps; the log ends after its last
       record, its last damaged byte, or the last record with a queue unit, whichever is the farthest
    3. a gap is split at the bounds of its files, so that each row has one file, or missing files

Segments before the first one expired or are lost. No file shows which, so they are no gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from store.formats.message import RECORD_MIN_SIZE
from store.layout import segment_name
from store.verbs.salvage.grade import BlankEnd, SalvagedRun, Skipped
from store.verbs.salvage.walk import Source

PlacedSource = tuple[Source, int]
"""A file and the log offset of its first byte."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Log offsets [log_offset, stop) without a salvaged record.

    file      the segment that has them, or the first missing one
    position  in the file; None if the file is missing or has no byte of the gap
    """

    file: str
    position: int | None
    log_offset: int
    stop: int
    reason: str

    @property
    def size(self) -> int:
        return self.stop - self.log_offset


@dataclass(slots=True)
class _Covered:
    """Log offsets [start, stop) that are accounted for, and the position of `stop` in its file."""

    start: int
    stop: int
    file: str
    position: int


class LogCoverage:
    """The salvaged and skipped bytes of the log, added in any order."""

    def __init__(self) -> None:
        self._covered: list[_Covered] = []
        self._skipped: list[Skipped] = []

    def add_run(self, found: SalvagedRun) -> None:
        """Cover the records, and the headers of a group's entries between them."""
        position = found.run.end - found.run.file_start
        self._add(_Covered(found.run.start, found.run.end, found.file, position))

    def add_blank(self, blank: BlankEnd) -> None:
        self._add(_Covered(blank.log_offset, blank.log_offset + blank.size, blank.file, blank.position + blank.size))

    def add_skipped(self, skipped: Skipped) -> None:
        self._skipped.append(skipped)

    def _add(self, new: _Covered) -> None:
        """Append a stretch, or extend the last one over a gap too small for a record."""
        last = self._covered[-1] if self._covered else None
        if last is not None and last.file == new.file and 0 <= new.start - last.stop < RECORD_MIN_SIZE:
            last.stop, last.position = new.stop, new.position
        else:
            self._covered.append(new)

    @property
    def end(self) -> int:
        """Log offset after the last covered or damaged byte, -1 without one."""
        ends = [*(one.stop for one in self._covered), *(one.log_offset + one.size for one in self._skipped)]
        return max(ends, default=-1)

    @property
    def covered_end(self) -> int:
        """Log offset after the last covered byte, -1 without one."""
        return max((one.stop for one in self._covered), default=-1)

    def gaps(self, sources: Sequence[PlacedSource], first: int, end: int) -> list[Gap]:
        """Run steps 2 and 3. The log goes from `first` to `end`."""
        found: list[Gap] = []
        at = first
        before: _Covered | None = None
        for covered in sorted(self._covered, key=lambda one: one.start):
            if covered.start - at >= RECORD_MIN_SIZE:
                found += self._split(at, covered.start, sources, before)
            if covered.stop > at:
                at, before = covered.stop, covered
        if end - at >= RECORD_MIN_SIZE:
            found += self._split(at, end, sources, before)
        return found

    def unlisted(self, gaps: Sequence[Gap]) -> list[Skipped]:
        """Return the skipped bytes outside of all gaps.

        They were inserted, or belong to a record whose log offset another record has.
        """
        return [one for one in self._skipped if not any(gap.log_offset <= one.log_offset < gap.stop for gap in gaps)]

    def _split(self, start: int, stop: int, sources: Sequence[PlacedSource], before: _Covered | None) -> Iterator[Gap]:
        at = start
        for source, first in sources:
            limit = max(source.limit, first + source.window.size)
            if limit <= at or first >= stop:
                continue
            if first > at:
                yield _missing(at, first, source.limit - first)
                at = first
            yield self._inside(source, first, at, min(limit, stop), before)
            at = min(limit, stop)
        if at < stop:
            size = max((source.limit - first for source, first in sources), default=stop - at)
            yield _missing(at, stop, size)

    def _inside(self, source: Source, first: int, start: int, stop: int, before: _Covered | None) -> Gap:
        """Describe a gap in one file, with the reason why the walk stopped there."""
        skipped = next(
            (one for one in self._skipped if one.file == source.name and start <= one.log_offset < stop), None
        )
        position = before.position if before is not None and before.file == source.name else start - first
        if skipped is not None:
            return Gap(source.name, skipped.position, start, stop, skipped.reason)
        if position >= source.window.size:
            return Gap(source.name, None, start, stop, f"the file ends at {source.window.size}: it was cut")
        reason = "zeros" if position >= source.stop else "bytes were removed from the file"
        return Gap(source.name, position, start, stop, reason)


def _missing(start: int, stop: int, segment_size: int) -> Gap:
    count = -(-(stop - start) // segment_size)
    reason = "the file is missing"
    if count > 1:
        reason = f"{count} files are missing, up to {segment_name(start + (count - 1) * segment_size)}"
    return Gap(segment_name(start), None, start, stop, reason)
