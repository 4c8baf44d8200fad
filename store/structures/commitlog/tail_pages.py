"""TailPages: gives the log's last segment disk blocks, and at a high rate writable pages.

    |---- messages ----|---- puts may write here ----|---- the next window ----|
                     wrote                         limit                     ready

    low rate    blocks only (MappedFile.reserve); the first put into a page takes a page fault
    high rate   one call makes a window's pages writable, in a fraction of the time of their faults

The thread that takes a window prepares the next one without the put lock and the GIL. Other threads put meanwhile, even
into that next window.
A prepared page is dirty, so a flush writes its zeros. So only stores that flush by time prepare pages, and only if the
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
"""If a window is filled in less time (168 MB/s), the next window gets writable pages."""
MEASURED_BYTES = 1 << 20
SMALLEST_SEGMENT = 4 * WINDOW_BYTES
_CELL_SIZE = 8


class TailPages:
    """Room for messages in `file`.

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
        """Prepare the next window at a high rate, unless another thread does it."""
        if self._is_fast:
            with self._lock:
                start = self._ready
                if start > self.limit_position or not self._has_next_window():
                    return
                stop = self._ready
            # Outside the lock: a thread in this call, or waiting for the GIL after it, stops no other thread.
            self._file.make_writable(max(start, self._file.wrote), stop)

    @property
    def limit_position(self) -> int:
        """The value of `limit`."""
        return int.from_bytes(self.limit, "big")

    def _open_up(self) -> None:
        self.limit[:] = self._ready.to_bytes(_CELL_SIZE, "big")

    def _has_next_window(self) -> bool:
        """Allocate blocks for the next window; return False at the file's end or on a full disk."""
        try:
            if self._ready < self._file.size:
                self._give_blocks(self._ready + 1)
                return True
        except StoreError:
            # The error is not lost: the put that needs this room tries again and raises it.
            self._is_fast = False
        return False

    def _give_blocks(self, end: int) -> None:
        file = self._file
        if self._is_fast:
            end = min(file.size, max(end, self._ready + WINDOW_BYTES))
        file.reserve(end)
        self._ready = end if self._is_fast else file.reserved

    def _note_rate(self) -> None:
        """Compute the rate since the last call; fewer than MEASURED_BYTES leave it unchanged."""
        (before, then), wrote, now = self._seen, self._file.wrote, self._clock_ns()
        if wrote - before >= MEASURED_BYTES:
            self._seen = wrote, now
            self._is_fast = self._may_hurry and (wrote - before) * WINDOW_NS > WINDOW_BYTES * (now - then)
