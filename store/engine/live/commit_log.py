"""CommitRealTimeService: copies buffers of the transient pool to the log (transientStorePoolEnable).

    every commitIntervalCommitLog, and after a put     commit if commitCommitLogLeastPages pages wait
    every commitCommitLogThoroughInterval              commit all waiting bytes
    after a commit                                     wake the flush service
    stop                                               commit until nothing moves (one commit covers one file)

Source: CommitLog.CommitRealTimeService, 4.9.8.
"""

from __future__ import annotations

from collections.abc import Callable

from store.config import StoreConfig
from store.engine.live.service import ServiceThread, monotonic_ms
from store.files.mapped_file_queue import MappedFileQueue


class CommitRealTimeService(ServiceThread):
    """Commits `segments`; intervals are ms of `clock`."""

    outlasts_full_disk = True

    def __init__(
        self,
        segments: MappedFileQueue,
        flusher: ServiceThread,
        config: StoreConfig,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(config.commit_interval_commit_log)
        self._segments = segments
        self._flusher = flusher
        self._config = config
        self._clock = clock
        self._last_commit_ms = -config.commit_commit_log_thorough_interval

    def work(self) -> None:
        now_ms = self._clock()
        least_pages = self._config.commit_commit_log_least_pages
        if now_ms >= self._last_commit_ms + self._config.commit_commit_log_thorough_interval:
            self._last_commit_ms = now_ms
            least_pages = 0
        if not self._segments.commit(least_pages):
            self._last_commit_ms = self._clock()
            self._flusher.wakeup()

    def last_work(self) -> None:
        # One call commits one file, and each pool buffer has a file.
        while not self._segments.commit(0):
            pass
