"""FlushConsumeQueueService: flushes the consume queues, and writes the checkpoint file.

    every flushIntervalConsumeQueue            flush each queue in which flushConsumeQueueLeastPages pages wait
    every flushConsumeQueueThoroughInterval    flush each queue, then the checkpoint
    stop                                       the same, with up to three flushes per queue

So after a crash the checkpoint on disk may be as old as the thorough interval. Besides this service, only a full index
file and the shutdown write the checkpoint.

Source: DefaultMessageStore.FlushConsumeQueueService, 4.9.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from store.config import StoreConfig
from store.engine.live.service import ServiceThread, monotonic_ms
from store.opened.checkpoint import StoreCheckpoint
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.flush import flush_queues

LAST_FLUSH_TRIES = 3


class FlushConsumeQueueService(ServiceThread):
    """Flushes each queue that `queues` returns; intervals are ms of `clock`."""

    def __init__(
        self,
        queues: Callable[[], Iterable[ConsumeQueue]],
        checkpoint: StoreCheckpoint,
        config: StoreConfig,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(config.flush_interval_consume_queue)
        self._queues = queues
        self._checkpoint = checkpoint
        self._config = config
        self._clock = clock
        self._last_thorough_ms = -config.flush_consume_queue_thorough_interval

    def work(self) -> None:
        now_ms = self._clock()
        least_pages = self._config.flush_consume_queue_least_pages
        if now_ms >= self._last_thorough_ms + self._config.flush_consume_queue_thorough_interval:
            self._last_thorough_ms = now_ms
            least_pages = 0
        self._flush_all(least_pages, tries=1)

    def last_work(self) -> None:
        self._flush_all(0, tries=LAST_FLUSH_TRIES)

    def _flush_all(self, least_pages: int, tries: int) -> None:
        flush_queues(self._queues(), least_pages, tries)
        if least_pages == 0:
            self._checkpoint.flush()
