"""The services that commit and flush at intervals.

    CommitRealTimeService       copies buffers of the transient pool to the log (transientStorePoolEnable)
    FlushRealTimeService        flushes the log (flushDiskType ASYNC_FLUSH)
    FlushConsumeQueueService    flushes the consume queues, and writes the checkpoint file

    every interval              if the least number of pages waits
    every thorough interval     all waiting bytes; only such a flush of the log moves the checkpoint's time
    stop                        all waiting bytes, in several calls, as one call commits or flushes one file

A put wakes the services of the log before their interval ends; with flushCommitLogTimed the flush sleeps all of it. The
checkpoint on disk may be as old as the thorough interval of the queues: besides their service, only a full index file
and the shutdown write it.

Source: CommitLog.CommitRealTimeService, CommitLog.FlushRealTimeService, DefaultMessageStore.FlushConsumeQueueService
(4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from store.config import StoreConfig
from store.engine.live.service import ServiceThread, monotonic_ms, note_flushed
from store.files.mapped_file_queue import MappedFileQueue
from store.opened.checkpoint import StoreCheckpoint
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.flush import flush_queues

LAST_FLUSH_TRIES = 10
LAST_QUEUE_FLUSH_TRIES = 3


class IntervalService(ServiceThread):
    """A service with both intervals, ms of `clock`. As in the broker, its first round is a thorough one."""

    def __init__(self, interval_ms: int, thorough_interval_ms: int, least_pages: int, clock: Callable[[], int]) -> None:
        super().__init__(interval_ms)
        self._thorough_interval_ms = thorough_interval_ms
        self._least_pages = least_pages
        self._clock = clock
        self._last_thorough_ms = -thorough_interval_ms

    def due_pages(self) -> int:
        """Return the least number of waiting pages for this round; 0 in a thorough one."""
        now_ms = self._clock()
        if now_ms < self._last_thorough_ms + self._thorough_interval_ms:
            return self._least_pages
        self._last_thorough_ms = now_ms
        return 0


class CommitRealTimeService(IntervalService):
    """Commits `segments`, and wakes the flush service after a commit."""

    outlasts_full_disk = True

    def __init__(
        self,
        segments: MappedFileQueue,
        flusher: ServiceThread,
        config: StoreConfig,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        interval_ms, thorough_ms = config.commit_interval_commit_log, config.commit_commit_log_thorough_interval
        super().__init__(interval_ms, thorough_ms, config.commit_commit_log_least_pages, clock)
        self._segments = segments
        self._flusher = flusher

    def work(self) -> None:
        if not self._segments.commit(self.due_pages()):
            self._last_thorough_ms = self._clock()
            self._flusher.wakeup()

    def last_work(self) -> None:
        # Each pool buffer has a file.
        while not self._segments.commit(0):
            pass


class FlushRealTimeService(IntervalService):
    """Flushes `segments`."""

    def __init__(
        self,
        segments: MappedFileQueue,
        checkpoint: StoreCheckpoint,
        config: StoreConfig,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        interval_ms, thorough_ms = config.flush_interval_commit_log, config.flush_commit_log_thorough_interval
        super().__init__(interval_ms, thorough_ms, config.flush_commit_log_least_pages, clock)
        self._segments = segments
        self._checkpoint = checkpoint
        self._sleeps_whole_interval = config.flush_commit_log_timed

    def wakeup(self) -> None:
        """End the sleep early, unless flushCommitLogTimed is set."""
        if not self._sleeps_whole_interval:
            super().wakeup()

    def work(self) -> None:
        self._segments.flush(self.due_pages())
        note_flushed(self._segments, self._checkpoint)

    def last_work(self) -> None:
        for _ in range(LAST_FLUSH_TRIES):
            if self._segments.flush(0):
                break


class FlushConsumeQueueService(IntervalService):
    """Flushes each queue that `queues` returns; after a thorough round the checkpoint."""

    def __init__(
        self,
        queues: Callable[[], Iterable[ConsumeQueue]],
        checkpoint: StoreCheckpoint,
        config: StoreConfig,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        interval_ms, thorough_ms = config.flush_interval_consume_queue, config.flush_consume_queue_thorough_interval
        super().__init__(interval_ms, thorough_ms, config.flush_consume_queue_least_pages, clock)
        self._queues = queues
        self._checkpoint = checkpoint

    def work(self) -> None:
        self._flush_all(self.due_pages(), tries=1)

    def last_work(self) -> None:
        self._flush_all(0, tries=LAST_QUEUE_FLUSH_TRIES)

    def _flush_all(self, least_pages: int, tries: int) -> None:
        flush_queues(self._queues(), least_pages, tries)
        if least_pages == 0:
            self._checkpoint.flush()
