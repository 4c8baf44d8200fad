"""MappedBytes: the bytes of a mapped file, whose pages the disk may not give."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.readable import (
    behind_unreadable,
    next_written,
    readable_end,
    require_readable,
    require_written_readable,
    unreadable_ranges,
)


class MappedBytes:
    """The reading side of a MappedFile, the owner of the map; positions are bytes."""

    __slots__ = ("_is_known_readable",)

    path: Path
    size: int
    _fs: Filesystem
    _is_closed: bool
    _is_known_readable: bool
    _view: memoryview | None
    _lent: memoryview | None

    @property
    def buffer(self) -> memoryview:
        """The whole map."""
        raise NotImplementedError

    @property
    def readable_position(self) -> int:
        """End of the bytes that readers may see."""
        raise NotImplementedError

    @property
    def mtime_ms(self) -> int:
        """Return the time of the last change; 0 for a deleted file, as File.lastModified does."""
        with self._unless_deleted():
            return self._fs.mtime_ns(self.path) // 1_000_000
        return 0

    def read(self, position: int, size: int) -> memoryview | None:
        """Return a view of `size` bytes, or None when not all of them were written. Copies nothing.

        StoreIOError when the disk can't give them."""
        if position < 0 or size < 0 or position + size > self.readable_position:
            return None
        return self.raw(position, position + size)

    def head(self, size: int) -> bytes | memoryview:
        """Give the first `size` bytes, or as many as were written.

        A file that is not mapped is read by a call: the first fault of a map reads megabytes of a hole in."""
        size = min(size, self.readable_position)
        if self._view is None and self._lent is None:
            with self._unless_deleted():
                return self._fs.read_start(os.fspath(self.path), size)
        return self.raw(0, size)

    def raw(self, start: int, stop: int) -> memoryview:
        """Return a view of [start, stop), written or not; StoreIOError when the disk can't give the bytes."""
        buffer = self.buffer
        require_readable(self._fs, self.path, buffer, start, stop)
        return buffer[start:stop]

    def require_written(self, margin: int) -> None:
        """Raise StoreIOError for an unreadable byte that was written, or up to `margin` bytes behind.

        Looked at once: an opening asks several times for each of what may be 100,000 files."""
        if not self._is_known_readable:
            with self._unless_deleted():
                require_written_readable(self._fs, self.path, self.buffer, margin)
            self._is_known_readable = True

    def readable_end(self, start: int, stop: int) -> int:
        """Read [start, stop) in; give `stop`, or where the first page begins that the disk can't give."""
        return readable_end(self._fs, self.path, self.buffer, start, stop)

    def behind_unreadable(self, start: int, stop: int) -> int:
        """Return the first readable page behind the unreadable one at `start`, or `stop`."""
        return behind_unreadable(self._fs, self.path, self.buffer, start, stop)

    def next_written(self, position: int) -> int:
        """Return the first position at or after this one that may have been written, at most the file's end."""
        return min(next_written(self._fs, self.path, position), self.size)

    def unreadable_ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Return the ranges of [start, stop) that the disk can't give."""
        return unreadable_ranges(self._fs, self.path, self.buffer, start, stop)

    @contextlib.contextmanager
    def _unless_deleted(self) -> Iterator[None]:
        """Pass over an error of a call by the file's name that a deletion has caused."""
        try:
            yield
        except StoreIOError:
            if not self._is_closed:
                raise
