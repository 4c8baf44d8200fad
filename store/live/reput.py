"""ReputMessageService: the thread that keeps a writable store's queues and index up with its log.

    every millisecond    dispatch what was put since
    stop                 dispatch the rest

A consume queue that cannot be written is tried again as the broker does: QUEUE_TRIES times, a second apart. Then the
service fails and the store refuses puts, where the broker sets the consume queue's bit in RunningFlags.

Source: DefaultMessageStore.ReputMessageService, ConsumeQueue.putMessagePositionInfoWrapper (4.9.8).
"""

from __future__ import annotations

import threading

from store.consumequeue.consume_queue_store import ConsumeQueueStore
from store.dispatch.dispatcher import Dispatcher
from store.errors import StoreIOError
from store.formats.run import Run
from store.live.service import ServiceThread

POLL_INTERVAL_MS = 1
# A pause after work lets a burst of puts gather, so that handing over costs them little.
GATHER_INTERVAL_S = 0.002
QUEUE_TRIES = 30
QUEUE_RETRY_S = 1.0


class ReputMessageService(ServiceThread):
    """Calls `dispatcher` while there is something to dispatch; stops at its first failure."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__(POLL_INTERVAL_MS)
        self.dispatcher = dispatcher
        self._pause = threading.Event()

    def stop(self) -> None:
        self._pause.set()
        super().stop()

    def work(self) -> None:
        if self.failure is None and self.dispatcher.behind_bytes > 0 and self.dispatcher.catch_up():
            self._pause.wait(GATHER_INTERVAL_S)

    def last_work(self) -> None:
        while self.failure is None and self.dispatcher.behind_bytes > 0 and self.dispatcher.catch_up():
            pass


class RetriedQueues:
    """The consume queues as a handler that tries a run again when the disk refuses it.

    Dispatching a run twice leaves the units of the first time as they are.
    """

    def __init__(self, queues: ConsumeQueueStore, retry_seconds: float = QUEUE_RETRY_S) -> None:
        self._queues = queues
        self._retry_seconds = retry_seconds
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Make the next failure final, so that a store can be closed while its disk refuses."""
        self._stopping.set()

    def dispatch(self, run: Run) -> None:
        for attempt in range(1, QUEUE_TRIES + 1):
            try:
                self._queues.dispatch(run)
                return
            except StoreIOError:
                if attempt == QUEUE_TRIES or self._stopping.wait(self._retry_seconds):
                    raise
