"""The readable ranges of a file: the check before mapped pages are touched.

    start ... | page | page | bad page | page ... stop
              ^ readable_end(start, stop) is the start of the bad page
                              ^ behind_unreadable(…) is the first readable page after it

A device needs seconds for each failing read, so the bad page is found in few steps: by windows, then by parts of the
failed window, then by pages.

A page may still be lost between this check and its use: see lost_pages.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.mapping import PAGE_SIZE

UNREADABLE_PAGE = "unreadable-page"
"""Code of the error for an unreadable page."""
WINDOW_BYTES = 32 << 20
_SEARCH_BYTES = 1 << 20
_STEPS = (WINDOW_BYTES, 1 << 20, 64 << 10, PAGE_SIZE)


def readable_end(fs: Filesystem, path: Path, view: memoryview, start: int, stop: int) -> int:
    """Populate [start, stop) of a whole map; return `stop`, or the start of the first unreadable page.

    If the page of `start` is unreadable, return `start`."""
    position = start
    for step in _STEPS:
        while position < stop:
            # Ends are aligned, so that a part of a window does not end inside a page.
            end = min(stop, position - position % step + step)
            if not fs.populate(path, view, position, end):
                break
            position = end
        if position >= stop:
            return stop
    return position


def behind_unreadable(fs: Filesystem, path: Path, view: memoryview, start: int, stop: int) -> int:
    """Return the start of the first readable page after the unreadable one at `start`; else `stop`."""
    position = start
    while position < stop:
        position = position - position % PAGE_SIZE + PAGE_SIZE
        if position < stop and fs.populate(path, view, position, min(stop, position + PAGE_SIZE)):
            return position
    return stop


def unreadable_ranges(fs: Filesystem, path: Path, view: memoryview, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the unreadable ranges of [start, stop)."""
    while (begin := readable_end(fs, path, view, start, stop)) < stop:
        start = behind_unreadable(fs, path, view, begin, stop)
        yield begin, start


def require_readable(fs: Filesystem, path: Path, view: memoryview, start: int, stop: int) -> None:
    """Raise StoreIOError with the offset if a byte of [start, stop) is unreadable."""
    if start < stop and not fs.populate(path, view, start, stop):
        raise unreadable(path, readable_end(fs, path, view, start, stop))


def require_written_readable(fs: Filesystem, path: Path, view: memoryview, margin: int = 0) -> None:
    """Raise StoreIOError for an unreadable byte in a written range, or up to `margin` bytes after one.

    Holes are skipped, as populating them would waste memory. The margin of a range that ends at `stop` is at most
    `stop` and a page: a search for the end doubles its steps, so it goes no farther."""
    # Listed first: on a tmpfs the pages of a margin count as written once they are read.
    for start, stop in list(fs.written_ranges(path, 0)):
        require_readable(fs, path, view, start, min(stop + min(margin, stop + PAGE_SIZE), len(view)))


def unreadable(path: Path, position: int) -> StoreIOError:
    """Return the error for an unreadable page."""
    return StoreIOError(
        "cannot read this page: the device reports an error, another process has shortened the file, or a file system "
        "in memory is full",
        file=path,
        offset=position,
        hint="copy what can be read before anything else",
        code=UNREADABLE_PAGE,
    )


def shortened(path: Path, size: int, found: int) -> StoreIOError:
    """Return the error for a file of `size` bytes that now has only `found` bytes."""
    return StoreIOError(
        f"another process has shortened the file: it had {size} bytes, and has {found}", file=path, offset=found
    )


class Salvaged(NamedTuple):
    """Bytes of a file with zeros for unreadable bytes, and the unreadable ranges in the file.

    mapped  the mapped stretch, if the bytes are not a copy
    """

    buffer: memoryview
    unreadable: tuple[tuple[int, int], ...] = ()
    mapped: Stretch | None = None

    def read_again(self, start: int, stop: int) -> None:
        """Populate a range for a second pass, as the pace gives back only populated windows."""
        if self.mapped is not None:
            self.mapped.readable_end(start, stop)

    def items(self, base: int, size: int) -> Iterator[tuple[int, int]]:
        """Yield the number ranges of items with an unreadable byte.

        Items have `size` bytes each, from `base` on.
        """
        for start, stop in self.unreadable:
            if stop > base:
                yield max(0, start - base) // size, -(-(stop - base) // size)

    def describe(self) -> str:
        """Return the unreadable ranges for people."""
        return "can't read bytes " + ", ".join(f"{start} to {stop}" for start, stop in self.unreadable)


class Stretch(NamedTuple):
    """Some bytes of a file; local ones begin at `start` in a map of the file, `whole`."""

    buffer: memoryview
    fs: Filesystem | None = None
    path: Path | None = None
    whole: memoryview | None = None
    start: int = 0

    def readable_end(self, start: int, stop: int) -> int:
        """Populate [start, stop) of the buffer; return `stop`, or the start of the first unreadable page.

        The buffer ends before `stop` if the file was shortened after it was listed."""
        size = len(self.buffer)
        if start >= size:
            return min(start, stop)
        stop = min(stop, size)
        if self.fs is None or self.path is None or self.whole is None:
            return stop
        end = readable_end(self.fs, self.path, self.whole, self.start + start, self.start + stop)
        return end - self.start

    def behind_unreadable(self, start: int, stop: int) -> int:
        """Return the start of the first readable page after the unreadable one at `start`, or `stop`."""
        size = len(self.buffer)
        if self.fs is None or self.path is None or self.whole is None:
            return stop
        end = behind_unreadable(self.fs, self.path, self.whole, self.start + start, self.start + min(stop, size))
        return end - self.start if end - self.start < size else stop

    def next_written(self, position: int) -> int:
        """Return the first position at or after this one that may be written, at most the buffer's end."""
        if self.fs is None or self.path is None or self.whole is None or position >= len(self.buffer):
            return position
        return min(self.fs.next_written(self.path, self.start + position) - self.start, len(self.buffer))

    def read(self) -> memoryview:
        """Return the bytes. StoreIOError with the file offset of an unreadable one."""
        self.require(0, len(self.buffer))
        return self.buffer

    def find(self, pattern: re.Pattern[bytes], start: int, stop: int) -> Iterator[int]:
        """Yield the positions in [start, stop) of a pattern of four bytes. Unreadable pages are left out."""
        size, position = len(self.buffer), start
        while position < min(stop, size):
            wanted = min(size, position + _SEARCH_BYTES)
            end = self.readable_end(position, wanted)
            for match in pattern.finditer(self.buffer[position:end]):
                if position + match.start() < stop:
                    yield position + match.start()
            if end < wanted:
                position = self.behind_unreadable(end, size)
            else:
                # The pattern may begin in one piece and end in the next.
                position = end - 3 if end < size else end

    def salvage(self, item_size: int = 1) -> Salvaged:
        """Return the bytes, with zeros for unreadable ones and for the whole items around them."""
        size, position = len(self.buffer), 0
        # Holes are skipped, as populating them would waste memory.
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
            first = max(start // item_size * item_size, self.start)
            behind = min(-(-stop // item_size) * item_size, self.start + size)
            copy[first - self.start : behind - self.start] = bytes(behind - first)
        return Salvaged(memoryview(copy).toreadonly(), tuple(ranges))

    def _written(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the buffer that may be written."""
        size = len(self.buffer)
        if self.fs is None or self.path is None:
            yield 0, size
            return
        for start, stop in self.fs.written_ranges(self.path, self.start):
            if start >= self.start + size:
                return
            yield max(start - self.start, 0), min(stop - self.start, size)

    def require(self, start: int, stop: int) -> None:
        """Raise StoreIOError with the file offset if a byte of [start, stop) is unreadable."""
        if self.fs is not None and self.path is not None and self.whole is not None:
            require_readable(self.fs, self.path, self.whole, self.start + start, self.start + stop)
