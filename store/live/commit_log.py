"""CommitRealTimeService: copies the lent write buffers into the commit log's files (transientStorePoolEnable).

    every interval_ms     commit if at least least_pages pages wait
    every thorough_ms     commit whatever waits
    something committed   wake the flush service
    stop                  commit whatever waits, up to ten times (one commit covers one file)

Source: CommitLog.CommitRealTimeService, 4.9.8.
"""

from __future__ import annotations

from collections.abc import Callable

from store.live.flush_log import monotonic_ms
from store.live.service import LogQueue, ServiceThread


class CommitRealTimeService(ServiceThread):
    """Intervals in ms of `clock`, which tests replace."""

    def __init__(
        self,
        queue: LogQueue,
        flusher: ServiceThread,
        *,
        interval_ms: int = 200,
        least_pages: int = 4,
        thorough_ms: int = 200,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(interval_ms)
        self._queue = queue
        self._flusher = flusher
        self._least_pages = least_pages
        self._thorough_ms = thorough_ms
        self._clock = clock
        self._last_commit_ms = -thorough_ms

    def work(self) -> None:
        now_ms = self._clock()
        least_pages = 0 if now_ms >= self._last_commit_ms + self._thorough_ms else self._least_pages
        if least_pages == 0:
            self._last_commit_ms = now_ms
        if not self._queue.commit(least_pages):
            self._last_commit_ms = self._clock()
            self._flusher.wakeup()

    def last_work(self) -> None:
        # One call moves one file on, and there may be as many as there are lent buffers.
        while not self._queue.commit(0):
            pass
