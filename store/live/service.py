"""ServiceThread: a loop in a thread that sleeps until its interval is over or it is woken, and stops when told to.

    start      begins the thread
    wakeup     ends the sleep early; a wake-up that comes while the loop works is kept for its next sleep
    stop       ends the loop, lets it do its last work, and waits for the thread

The threads are no daemons: a daemon could be cut off in the middle of a flush. In return each ends by itself when the
main thread has ended without closing the store, so that a program can't hang at its exit.

`failure` keeps the first exception; the loop goes on only where that is safe, and the store asks for it.

Source: ServiceThread, 4.9.8.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Protocol


class ServiceThread:
    """Base of the services. A subclass gives `work` (once per round) and, if it needs it, `last_work`."""

    def __init__(self, interval_ms: int) -> None:
        self.failure: BaseException | None = None
        self.on_failure: Callable[[], None] = lambda: None
        """Called once, when `failure` is set."""
        self._interval_seconds = interval_ms / 1000
        self._stopping = False
        # A lock that is released to wake: an Event costs several of them per round.
        self._alarm = threading.Lock()
        self._alarm.acquire()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the last work is done. Stopping a service that was never started does nothing."""
        self._stopping = True
        self.wakeup()
        if self._thread.ident is not None:
            self._thread.join()

    def wakeup(self) -> None:
        # Free means that the loop was woken before and has not come round yet. So it may be a moment later too.
        if self._alarm.locked():
            with contextlib.suppress(RuntimeError):
                self._alarm.release()

    def work(self) -> None:
        """One round."""
        raise NotImplementedError

    def last_work(self) -> None:
        """What is left to do when the loop has ended."""

    def sleep(self) -> None:
        """Until the interval is over or somebody wakes the loop."""
        self._alarm.acquire(timeout=self._interval_seconds)

    def _run(self) -> None:
        while not self._is_over():
            self.sleep()
            self._guarded(self.work)
        self._guarded(self.last_work)

    def _is_over(self) -> bool:
        return self._stopping or not threading.main_thread().is_alive()

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            if self.failure is None:
                self.failure = error
                self.on_failure()


class Flushable(Protocol):
    """What a flush service needs of a MappedFileQueue or a consume queue."""

    def flush(self, least_pages: int) -> bool: ...


class LogQueue(Flushable, Protocol):
    """What the commit log's services need of its MappedFileQueue."""

    flushed_where: int
    store_timestamp_ms: int

    def commit(self, least_pages: int) -> bool: ...


class Checkpoint(Protocol):
    """What the services tell the checkpoint."""

    physic_ms: int

    def flush(self) -> None: ...


def note_flushed(queue: LogQueue, checkpoint: Checkpoint) -> None:
    """Everything stored up to this time is durable. 0 means that no thorough flush has happened yet."""
    if queue.store_timestamp_ms > 0:
        checkpoint.physic_ms = queue.store_timestamp_ms
