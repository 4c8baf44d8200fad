"""MappedBytes: the bytes of a mapped file; some pages may be unreadable."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.readable import (
    behind_unreadable,
    readable_end,
    require_readable,
    require_written_readable,
    unreadable_ranges,
)


class MappedBytes:
    """The reading half of MappedFile; positions are bytes."""

    __slots__ = ("_is_known_readable",)

    path: Path
    size: int
    _fs: Filesystem
    _is_closed: bool
    _is_known_readable: bool
    _view: memoryview | None

    @property
    def buffer(self) -> memoryview:
        """The whole map."""
        raise NotImplementedError

    @property
    def readable_position(self) -> int:
        """End of the readable bytes."""
        raise NotImplementedError

    @property
    def mtime_ms(self) -> int:
        """Time of the last change; 0 for a deleted file, as in File.lastModified."""
        with self._unless_deleted():
            return self._fs.mtime_ns(self.path) // 1_000_000
        return 0

    def read(self, position: int, size: int) -> memoryview | None:
        """Return a view of `size` bytes without a copy; None unless all of them are written.

        StoreIOError for unreadable pages."""
        if position < 0 or size < 0 or position + size > self.readable_position:
            return None
        return self.raw(position, position + size)

    def head(self, size: int) -> bytes | memoryview:
        """Return the first `size` bytes, or all written ones if fewer.

        An unmapped file is read by a system call, as the first fault of a map reads megabytes of a hole."""
        size = min(size, self.readable_position)
        if self._view is None:
            with self._unless_deleted():
                return self._fs.read_start(os.fspath(self.path), size)
        return self.raw(0, size)

    def raw(self, start: int, stop: int) -> memoryview:
        """Return a view of [start, stop), written or not; StoreIOError for unreadable pages."""
        buffer = self.buffer
        require_readable(self._fs, self.path, buffer, start, stop)
        return buffer[start:stop]

    def require_written(self, margin: int) -> None:
        """Raise StoreIOError for an unreadable byte in the written ranges, or up to `margin` bytes after one.

        The result is kept, as opening a store calls this several times for up to 100,000 files."""
        if not self._is_known_readable:
            with self._unless_deleted():
                require_written_readable(self._fs, self.path, self.buffer, margin)
            self._is_known_readable = True

    def readable_end(self, start: int, stop: int) -> int:
        """Read [start, stop) into memory; return `stop`, or the start of the first unreadable page."""
        return readable_end(self._fs, self.path, self.buffer, start, stop)

    def behind_unreadable(self, start: int, stop: int) -> int:
        """Return the start of the first readable page after the unreadable one at `start`, or `stop`."""
        return behind_unreadable(self._fs, self.path, self.buffer, start, stop)

    def next_written(self, position: int) -> int:
        """Return the first position at or after this one that may have been written, at most the file's end."""
        return min(self._fs.next_written(self.path, position), self.size)

    def written_end(self) -> int:
        """Return the end of the bytes that may have been written, before the hole at the file's end."""
        return self._fs.written_size(self._fs.open_read(self.path))

    def unreadable_ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Return the unreadable ranges of [start, stop)."""
        return unreadable_ranges(self._fs, self.path, self.buffer, start, stop)

    @contextlib.contextmanager
    def _unless_deleted(self) -> Iterator[None]:
        """Ignore a StoreIOError inside the block if the file has been deleted or closed."""
        try:
            yield
        except StoreIOError:
            if not self._is_closed:
                raise
