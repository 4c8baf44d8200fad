"""FlushConsumeQueueService: flushes the consume queues, and writes the checkpoint file.

    every interval_ms     flush each queue that has at least least_pages pages waiting
    every thorough_ms     flush each queue, then the checkpoint
    stop                  the same, with up to three flushes per queue

The checkpoint on disk is therefore up to thorough_ms old after a crash. Besides this service only a full index file
and the shutdown write it.

Source: DefaultMessageStore.FlushConsumeQueueService, 4.9.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from store.live.flush_log import monotonic_ms
from store.live.service import Checkpoint, Flushable, ServiceThread

LAST_FLUSH_TRIES = 3


class FlushConsumeQueueService(ServiceThread):
    """`queues` is asked each round for the queues that exist then. Intervals in ms of `clock`."""

    def __init__(
        self,
        queues: Callable[[], Iterable[Flushable]],
        checkpoint: Checkpoint,
        *,
        interval_ms: int = 1000,
        least_pages: int = 2,
        thorough_ms: int = 60_000,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(interval_ms)
        self._queues = queues
        self._checkpoint = checkpoint
        self._least_pages = least_pages
        self._thorough_ms = thorough_ms
        self._clock = clock
        self._last_thorough_ms = -thorough_ms

    def work(self) -> None:
        now_ms = self._clock()
        thorough = now_ms >= self._last_thorough_ms + self._thorough_ms
        if thorough:
            self._last_thorough_ms = now_ms
        self._flush_all(0 if thorough else self._least_pages, tries=1)

    def last_work(self) -> None:
        self._flush_all(0, tries=LAST_FLUSH_TRIES)

    def _flush_all(self, least_pages: int, tries: int) -> None:
        for queue in self._queues():
            for _ in range(tries):
                if queue.flush(least_pages):
                    break
        if least_pages == 0:
            self._checkpoint.flush()
