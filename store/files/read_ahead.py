"""Populates a scan's pages in a separate thread, a little ahead of the scan.

    | given back | scan ... | read ahead ... |        | not read yet
                            ^ wanted         ^ end

The kernel reads ahead only as far as the device's setting (128 KiB by default), and only while pages are touched. So
the device would be idle while the scan works on a window.
"""

from __future__ import annotations

from threading import Condition
from typing import ClassVar, Protocol

from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.threads import Worker

AHEAD_BYTES = 48 << 20
"""Limit for all scans of the process together. With the windows of two scans it is below the 128 MiB that a command
keeps mapped, as pages given back before the scan reaches them would be read twice.
"""
AHEAD_WINDOW_BYTES = 16 << 20
"""A scan's window while its pages are read ahead."""
_STEP_BYTES = 8 << 20


class Pages(Protocol):
    """A scan's segment (store.structures.commitlog.scan.Segment)."""

    def readable_end(self, start: int, stop: int) -> int: ...

    def next_written(self, position: int) -> int: ...


class ReadAhead:
    """A thread that populates the pages [start, limit) ahead of the scan, by its share of AHEAD_BYTES.

    The end of the file is mostly a hole: holes are not read ahead.
    """

    _walks: ClassVar[set[ReadAhead]] = set()

    def __init__(self, pages: Pages, start: int, limit: int) -> None:
        self._pages, self._limit = pages, limit
        self._end = self._wanted = start
        self._is_over = False
        self._error: BaseException | None = None
        self._changed = Condition()
        # A scan that is never closed must not block the end of the process.
        self._thread = Worker(self._run, "read ahead", daemon=True)
        self._walks.add(self)
        self._thread.start()

    @classmethod
    def of(cls, pages: Pages, start: int, limit: int) -> ReadAhead | None:
        """Start the thread; None if the process's pace limits its reads, as nothing would be gained."""
        return cls(pages, start, limit) if Filesystem.pace.bytes_per_s is None else None

    def until(self, stop: int) -> int:
        """Wait for the pages before `stop`; return `stop`, or the start of the first unreadable page."""
        with self._changed:
            self._wanted = stop
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._end >= stop or self._is_over)
        if self._error is not None and self._end < stop:
            raise self._error
        return min(self._end, stop)

    def close(self) -> None:
        """Stop after the current step, and wait for it."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._thread.join()
        self._walks.discard(self)

    def _run(self) -> None:
        try:
            while (stop := self._next_stop()) is not None:
                end = self._pages.readable_end(self._end, stop)
                with self._changed:
                    self._end, self._is_over = end, self._is_over or end < stop or end == self._limit
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._error, self._is_over = error, True
                self._changed.notify_all()

    def _next_stop(self) -> int | None:
        """Wait until the next step may be read; return its end, None at the end of the work."""
        room = AHEAD_BYTES // max(len(self._walks), 1) if self._is_written() else 0
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._end < self._wanted + room)
            stop = min(self._limit, self._wanted + room, self._end + _STEP_BYTES)
            return None if self._is_over else stop

    def _is_written(self) -> bool:
        try:
            return self._pages.next_written(self._end) == self._end
        except StoreIOError:
            return False  # The file was deleted meanwhile; the scan's pages are still mapped.
