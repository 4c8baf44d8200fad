"""FlushRealTimeService: flushes the commit log every so often (flushDiskType ASYNC_FLUSH).

    every interval_ms     flush if at least least_pages pages wait
    every thorough_ms     flush whatever waits, and tell the checkpoint: only a thorough flush knows a store time
    stop                  flush whatever waits, up to ten times (one flush covers one file)

`timed` sleeps the interval out; otherwise a wake-up (from CommitRealTimeService) ends it.

Source: CommitLog.FlushRealTimeService, 4.9.8.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from store.live.service import Checkpoint, LogQueue, ServiceThread, note_flushed

LAST_FLUSH_TRIES = 10


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class FlushRealTimeService(ServiceThread):
    """Intervals in ms of `clock`, which tests replace."""

    def __init__(
        self,
        queue: LogQueue,
        checkpoint: Checkpoint,
        *,
        interval_ms: int = 500,
        least_pages: int = 4,
        thorough_ms: int = 10_000,
        timed: bool = True,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(interval_ms)
        self._queue = queue
        self._checkpoint = checkpoint
        self._least_pages = least_pages
        self._thorough_ms = thorough_ms
        self._timed = timed
        self._clock = clock
        # As in the broker, the first round is a thorough one.
        self._last_thorough_ms = -thorough_ms

    def wakeup(self) -> None:
        """Ends the sleep only where it is not timed; stop() always ends it."""
        if not self._timed or self._stopping:
            super().wakeup()

    def work(self) -> None:
        least_pages = self._least_pages
        now_ms = self._clock()
        if now_ms >= self._last_thorough_ms + self._thorough_ms:
            self._last_thorough_ms = now_ms
            least_pages = 0
        self._queue.flush(least_pages)
        note_flushed(self._queue, self._checkpoint)

    def last_work(self) -> None:
        for _ in range(LAST_FLUSH_TRIES):
            if self._queue.flush(0):
                break
