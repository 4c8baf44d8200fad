"""TailPages: gives the log's last segment blocks on the disk, and at a high rate writable pages.

    |---- messages ----|---- puts may write here ----|---- the next window ----|
                     wrote                         limit                     ready

    low rate    blocks only (MappedFile.reserve); a put that is the first to touch a page takes a fault
    high rate   a window at a time: a call makes its pages writable in a fraction of the time of their faults

The thread that takes a window prepares the next one before its own put, without the put lock and the GIL: other threads
put meanwhile, into that window too if they are so fast.

A page that is ready is dirty, and a flush writes its zeros. So only stores that flush by time do it, and only where the
two windows are a fifth of a flush or less.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from store.errors import StoreError
from store.files.mapped_file import MappedFile

WINDOW_BYTES = 8 << 20
WINDOW_NS = 50_000_000
"""A window that is filled in less time is followed by one with writable pages: 168 MB/s."""
MEASURED_BYTES = 1 << 20
SMALLEST_SEGMENT = 4 * WINDOW_BYTES
_CELL_SIZE = 8


class TailPages:
    """Gives `file` room for messages.

    limit  a cell: the position up to which the kernel may write
    """

    def __init__(
        self,
        file: MappedFile,
        *,
        flushes_by_time: bool,
        before: TailPages | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.limit = bytearray(_CELL_SIZE)
        self._file = file
        self._may_hurry = flushes_by_time and file.size >= SMALLEST_SEGMENT and not file.has_lent_buffer
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._is_fast: bool = self._may_hurry and before is not None and before._is_fast
        self._seen = (file.wrote, clock_ns())
        self._ready = file.reserved
        self._open_up()

    def reserve(self, end: int) -> None:
        """Make room for the bytes before `end`; StoreIOError when the disk is full."""
        if end > self.limit_position:
            with self._lock:
                self._note_rate()
                if end > self._ready:
                    self._give_blocks(end)
                self._open_up()

    def go_ahead(self) -> None:
        """Make the next window ready at a high rate, unless another thread does."""
        if self._is_fast:
            with self._lock:
                start = self._ready
                if start > self.limit_position or not self._has_next_window():
                    return
                stop = self._ready
            # Without the lock: a thread that is here, or waits for the interpreter's lock after it, stops no other.
            self._file.make_writable(max(start, self._file.wrote), stop)

    @property
    def limit_position(self) -> int:
        """The value of `limit`."""
        return int.from_bytes(self.limit, "big")

    def _open_up(self) -> None:
        self.limit[:] = self._ready.to_bytes(_CELL_SIZE, "big")

    def _has_next_window(self) -> bool:
        """Give blocks to it; False at the file's end, or where the disk gives none."""
        try:
            if self._ready < self._file.size:
                self._give_blocks(self._ready + 1)
                return True
        except StoreError:
            # Not lost: the put that needs this room tries again and gets the error.
            self._is_fast = False
        return False

    def _give_blocks(self, end: int) -> None:
        file = self._file
        if self._is_fast:
            end = min(file.size, max(end, self._ready + WINDOW_BYTES))
        file.reserve(end)
        self._ready = end if self._is_fast else file.reserved

    def _note_rate(self) -> None:
        """Compare the bytes written since the last look with the time; a few tell nothing."""
        (before, then), wrote, now = self._seen, self._file.wrote, self._clock_ns()
        if wrote - before >= MEASURED_BYTES:
            self._seen = wrote, now
            self._is_fast = self._may_hurry and (wrote - before) * WINDOW_NS > WINDOW_BYTES * (now - then)
