"""Pace: limits how fast a process reads a log, and how many of its pages it keeps.

    ... given back |<------ kept ------>| read in | not read yet

A scan populates a window before it uses it (Filesystem.populate). The pace waits before that, and returns the windows
that are old enough to give back. "Given back" means dropped from this process's memory. A cold pace also drops their
pages from the page cache, so that a broker on the same machine keeps its own pages. This drop lags by another
`kept_bytes`, as slower steps of the scan still touch given-back pages and would read them from the device again.
The process has one pace, as it has one priority: Filesystem.pace.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

# Smaller ranges are single reads, not windows of a scan.
WINDOW_WORTH_BYTES = 256 << 10
STEP_BYTES = 1 << 20
"""Bytes read between two waits."""
FOLIO_BYTES = 4 << 20
"""The kernel drops only whole folios; they may reach so far beyond a window."""
_SHORTEST_WAIT_S = 0.002


class Window(NamedTuple):
    """A populated range of a mapped file."""

    path: Path
    view: memoryview
    start: int
    stop: int


class Pace:
    """One process's pace; without arguments it neither waits nor gives back.

    bytes_per_s  the highest rate of reading
    kept_bytes   the number of newest bytes to keep in memory
    is_cold      drop given-back pages from the page cache too
    """

    def __init__(
        self, bytes_per_s: float | None = None, *, kept_bytes: int | None = None, is_cold: bool = False
    ) -> None:
        self.bytes_per_s = bytes_per_s
        self.is_cold = is_cold
        self._kept_bytes = kept_bytes
        self._kept = 0
        self._windows: deque[Window] = deque()
        self._walked: dict[Path, int] = {}
        self._free_at = 0.0
        self._lock = threading.Lock()

    def wait_for(self, size: int) -> None:
        """Wait until `size` more bytes may be read."""
        if self.bytes_per_s is None:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + size / self.bytes_per_s
            wait = self._free_at - now
        if wait > _SHORTEST_WAIT_S:
            time.sleep(wait)

    def passed(self, window: Window) -> list[Window]:
        """Add a populated window; return the windows to give back."""
        if self._kept_bytes is None or window.stop - window.start < WINDOW_WORTH_BYTES:
            return []
        with self._lock:
            self._windows.append(window)
            self._walked[window.path] = max(window.stop, self._walked.get(window.path, 0))
            self._kept += window.stop - window.start
            return self._taken(self._kept_bytes)

    def finish(self) -> list[Window]:
        """Return all remaining windows, to give them back."""
        with self._lock:
            return self._taken(0)

    def forgotten_before(self, window: Window) -> int:
        """Return the end of the pages to drop from the page cache when the window is given back."""
        return max(0, window.stop - (self._kept_bytes or 0)) if self.is_cold else 0

    def walked(self) -> dict[Path, int]:
        """Return the scanned files, and the end of the scan in each."""
        with self._lock:
            return dict(self._walked)

    def _taken(self, kept_bytes: int) -> list[Window]:
        taken = []
        while self._windows and self._kept > kept_bytes:
            window = self._windows.popleft()
            self._kept -= window.stop - window.start
            taken.append(window)
        return taken
