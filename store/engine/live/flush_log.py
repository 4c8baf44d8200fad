"""FlushRealTimeService: flushes the commit log at intervals (flushDiskType ASYNC_FLUSH).

    every flushIntervalCommitLog            flush if flushCommitLogLeastPages pages wait
    every flushCommitLogThoroughInterval    flush all waiting bytes; only such a flush moves the checkpoint's time
    stop                                    flush all waiting bytes, up to ten times (one flush covers one file)

With flushCommitLogTimed the service sleeps its whole interval; otherwise a put or a commit ends the sleep.

Source: CommitLog.FlushRealTimeService, 4.9.8.
"""

from __future__ import annotations

from collections.abc import Callable

from store.config import StoreConfig
from store.engine.live.service import ServiceThread, monotonic_ms, note_flushed
from store.files.mapped_file_queue import MappedFileQueue
from store.opened.checkpoint import StoreCheckpoint

LAST_FLUSH_TRIES = 10


class FlushRealTimeService(ServiceThread):
    """Flushes `segments`; intervals are ms of `clock`."""

    def __init__(
        self,
        segments: MappedFileQueue,
        checkpoint: StoreCheckpoint,
        config: StoreConfig,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(config.flush_interval_commit_log)
        self._segments = segments
        self._checkpoint = checkpoint
        self._config = config
        self._clock = clock
        # As in the broker, the first round is a thorough one.
        self._last_thorough_ms = -config.flush_commit_log_thorough_interval

    def wakeup(self) -> None:
        """End the sleep early, unless flushCommitLogTimed is set."""
        if not self._config.flush_commit_log_timed:
            super().wakeup()

    def work(self) -> None:
        least_pages = self._config.flush_commit_log_least_pages
        now_ms = self._clock()
        if now_ms >= self._last_thorough_ms + self._config.flush_commit_log_thorough_interval:
            self._last_thorough_ms = now_ms
            least_pages = 0
        self._segments.flush(least_pages)
        note_flushed(self._segments, self._checkpoint)

    def last_work(self) -> None:
        for _ in range(LAST_FLUSH_TRIES):
            if self._segments.flush(0):
                break
