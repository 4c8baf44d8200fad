"""How far a file can be read: the check before a walk touches mapped pages.

    start ... | page | page | bad page | page ... stop
              ^ readable_end(start, stop) is the start of the bad page
                              ^ behind_unreadable(…) is the first page after it that can be read

A device needs seconds for each failing read, so the bad page is approached in few steps: windows, then parts of the
window that failed, then pages.

A page may still be lost between this check and its use: see lost_pages.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.mapping import PAGE_SIZE

UNREADABLE_PAGE = "unreadable-page"
"""Code of the error for a page that the device does not give."""
WINDOW_BYTES = 32 << 20
_STEPS = (WINDOW_BYTES, 1 << 20, 64 << 10, PAGE_SIZE)


def readable_end(fs: Filesystem, path: Path, view: memoryview, start: int, stop: int) -> int:
    """Read [start, stop) of a whole map in; give `stop`, or the start of the first unreadable page.

    A page that holds `start` counts from `start` on."""
    position = start
    for step in _STEPS:
        while position < stop:
            # Aligned, so that a part of a window never ends inside a page.
            end = min(stop, position - position % step + step)
            if not fs.populate(path, view, position, end):
                break
            position = end
        if position >= stop:
            return stop
    return position


def behind_unreadable(fs: Filesystem, path: Path, view: memoryview, start: int, stop: int) -> int:
    """Return the first readable page behind the unreadable one at `start`; `stop` when there is none."""
    position = start
    while position < stop:
        position = position - position % PAGE_SIZE + PAGE_SIZE
        if position < stop and fs.populate(path, view, position, min(stop, position + PAGE_SIZE)):
            return position
    return stop


def next_written(fs: Filesystem, path: Path, position: int) -> int:
    """Return the first position at or after this one that is in no hole, or the largest there is."""
    return max(position, next((start for start, _ in fs.written_ranges(path, position)), sys.maxsize))


def unreadable_ranges(fs: Filesystem, path: Path, view: memoryview, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of [start, stop) that can't be read."""
    while (begin := readable_end(fs, path, view, start, stop)) < stop:
        start = behind_unreadable(fs, path, view, begin, stop)
        yield begin, start


def require_readable(fs: Filesystem, path: Path, view: memoryview, start: int, stop: int) -> None:
    """Raise StoreIOError with the place when a byte of [start, stop) can't be read."""
    if start < stop and not fs.populate(path, view, start, stop):
        raise unreadable(path, readable_end(fs, path, view, start, stop))


def require_written_readable(fs: Filesystem, path: Path, view: memoryview, margin: int = 0) -> None:
    """Raise StoreIOError for an unreadable written byte, or one up to `margin` bytes behind.

    Holes are left alone: reading them in would take memory for nothing. So is what is farther behind than twice the
    way to there: whoever looks for the end goes on by doubled steps."""
    for start, stop in fs.written_ranges(path, 0):
        require_readable(fs, path, view, start, min(stop + min(margin, stop + PAGE_SIZE), len(view)))


def unreadable(path: Path, position: int) -> StoreIOError:
    """Return the error for a page that can't be read."""
    return StoreIOError(
        "cannot read this page: the device reports an error, another process has shortened the file, or a file system "
        "in memory is full",
        file=path,
        offset=position,
        hint="copy what can be read before anything else",
        code=UNREADABLE_PAGE,
    )


def shortened(path: Path, size: int, found: int) -> StoreIOError:
    """Make the error for a file of `size` bytes that has only `found` of them left."""
    return StoreIOError(
        f"another process has shortened the file: it had {size} bytes, and has {found}", file=path, offset=found
    )


@dataclass(frozen=True, slots=True)
class Salvaged:
    """Bytes of a file, with zeros for unreadable ones, and the ranges of those in the file.

    mapped  where the bytes are a map's
    """

    buffer: memoryview
    unreadable: tuple[tuple[int, int], ...] = ()
    mapped: Stretch | None = None

    def read_again(self, start: int, stop: int) -> None:
        """Read a range in for a second pass: the pace gives back only pages that a reader announced."""
        if self.mapped is not None:
            self.mapped.readable_end(start, stop)

    def items(self, base: int, size: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the numbers of items with an unreadable byte.

        Items of `size` bytes begin at `base`.
        """
        for start, stop in self.unreadable:
            if stop > base:
                yield max(0, start - base) // size, -(-(stop - base) // size)

    def describe(self) -> str:
        """Return the unreadable ranges for people."""
        return "can't read bytes " + ", ".join(f"{start} to {stop}" for start, stop in self.unreadable)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some bytes of a file; local ones are part of a map, `whole`, that begins `start` bytes earlier."""

    buffer: memoryview
    fs: Filesystem | None = None
    path: Path | None = None
    whole: memoryview | None = None
    start: int = 0

    def readable_end(self, start: int, stop: int) -> int:
        """Read [start, stop) of the buffer in; give `stop`, or the start of the first unreadable page.

        The buffer ends before `stop` where the file was shortened since it was listed."""
        size = len(self.buffer)
        if start >= size:
            return min(start, stop)
        stop = min(stop, size)
        if self.fs is None or self.path is None or self.whole is None:
            return stop
        end = readable_end(self.fs, self.path, self.whole, self.start + start, self.start + stop)
        return end - self.start

    def behind_unreadable(self, start: int, stop: int) -> int:
        """Return the first readable page behind the unreadable one at `start`, or `stop`."""
        size = len(self.buffer)
        if self.fs is None or self.path is None or self.whole is None or start >= size:
            return stop
        end = behind_unreadable(self.fs, self.path, self.whole, self.start + start, self.start + min(stop, size))
        return end - self.start if end - self.start < size else stop

    def next_written(self, position: int) -> int:
        """Return the first position from this one on that may have been written, at most the buffer's end."""
        if self.fs is None or self.path is None or self.whole is None or position >= len(self.buffer):
            return position
        return min(next_written(self.fs, self.path, self.start + position) - self.start, len(self.buffer))

    def salvage(self, item_size: int = 1) -> Salvaged:
        """Return every byte that can be read.

        Zeros for the others, and for the rest of items that hold such a byte.
        """
        size, position = len(self.buffer), 0
        # Holes are left alone: reading them in would take memory for nothing.
        if all(self.readable_end(start, stop) == stop for start, stop in self._written()):
            return Salvaged(self.buffer, mapped=self)
        copy, ranges = bytearray(size), []
        while position < size:
            end = self.readable_end(position, size)
            copy[position:end] = self.buffer[position:end]
            position = self.behind_unreadable(end, size) if end < size else size
            if end < position:
                ranges.append((self.start + end, self.start + position))
        for start, stop in ranges:
            first, behind = start // item_size * item_size, min(-(-stop // item_size) * item_size, self.start + size)
            copy[first - self.start : behind - self.start] = bytes(behind - first)
        return Salvaged(memoryview(copy).toreadonly(), tuple(ranges))

    def _written(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the buffer that may have been written."""
        size = len(self.buffer)
        if self.fs is None or self.path is None:
            yield 0, size
            return
        for start, stop in self.fs.written_ranges(self.path, self.start):
            if start >= self.start + size:
                return
            yield max(start - self.start, 0), min(stop - self.start, size)

    def require(self, start: int, stop: int) -> None:
        """Raise StoreIOError with the place in the file when a byte of [start, stop) can't be read."""
        if self.fs is not None and self.path is not None and self.whole is not None:
            require_readable(self.fs, self.path, self.whole, self.start + start, self.start + stop)
