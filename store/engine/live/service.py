"""ServiceThread: a loop in a thread that sleeps for its interval or until it is woken or stopped.

    start      begins the thread
    wakeup     ends the sleep early; a wake-up that comes while the loop works is kept for its next sleep
    stop       ends the loop, does its last work, and waits for the thread

The threads are no daemons: a daemon could be killed in the middle of a flush. So each ends by itself if the main thread
has ended without closing the store: no program hangs at its exit.

    too many open files    `trouble` keeps the error until a round succeeds; the next one begins RETRY_S later
    a full disk            the same, for a service that `outlasts_full_disk`; after a failed sync pages may be lost
    any other exception    `failure` keeps the first; the loop goes on, and the store refuses puts from then on

Source: ServiceThread, 4.9.8.
"""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import ClassVar

from store.errors import StoreError, is_no_space, is_passing
from store.files.mapped_file_queue import MappedFileQueue
from store.opened.checkpoint import StoreCheckpoint
from store.threads import Worker

RETRY_S = 1.0
LOOKS_UP_S = 0.5
"""A sleeper checks this often whether the main thread has ended, as nothing wakes it then."""


class ServiceThread(ABC):
    """Base of the services. A subclass has `work` (once per round) and, if needed, `last_work`.

    outlasts_full_disk  whether a round can be repeated from its beginning after a full disk refused it
    """

    outlasts_full_disk: ClassVar[bool] = False

    def __init__(self, interval_ms: int) -> None:
        self.failure: BaseException | None = None
        self.trouble: BaseException | None = None
        """Why the last round will be tried again; None if it succeeded."""
        self.failed_at: TracebackType | None = None
        """The traceback of `failure`."""
        self.on_failure: Callable[[], None] = lambda: None
        """Called once, when `failure` is set."""
        self._interval_seconds = interval_ms / 1000
        self._stopping = threading.Event()
        # Releasing the lock wakes the thread: an Event needs several locks per round.
        self._alarm = threading.Lock()
        self._alarm.acquire()
        self._thread = Worker(self._run, type(self).__name__)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, and return after the last work; a service that was never started has none."""
        self._stopping.set()
        self._ring()
        self._thread.join()

    def wakeup(self) -> None:
        """End the sleep early."""
        self._ring()

    @abstractmethod
    def work(self) -> None:
        """Do one round."""

    def last_work(self) -> None:  # noqa: B027 (most services have none)
        """Do the remaining work after the loop has ended."""

    def sleep(self) -> None:
        """Wait until the interval is over, a wake-up comes, or the main thread has ended."""
        left = self._interval_seconds
        while not self._alarm.acquire(timeout=min(left, LOOKS_UP_S)) and left > LOOKS_UP_S and not self._is_over():
            left -= LOOKS_UP_S

    def _ring(self) -> None:
        # A free lock is a wake-up that the loop has not taken yet.
        if self._alarm.locked():
            with contextlib.suppress(RuntimeError):
                self._alarm.release()

    def _run(self) -> None:
        while not self._is_over():
            self.sleep()
            self._guarded(self.work)
        self._guarded(self.last_work)

    def _is_over(self) -> bool:
        return self._stopping.is_set() or not threading.main_thread().is_alive()

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
            self.trouble = None
        except Exception as error:
            if not self._waits_for_next_try(error) and self.failure is None:
                self.failure, self.failed_at = error, error.__traceback__
                self.on_failure()

    def _waits_for_next_try(self, error: Exception) -> bool:
        """Wait if an error may pass; False if it may not, or if the service is to end."""
        may_pass = is_passing(error) or (self.outlasts_full_disk and is_no_space(error))
        if not may_pass or self._is_over():
            return False
        self.trouble = error
        self._stopping.wait(RETRY_S)
        return True

    def describe_findings(self) -> list[str]:
        """Return why the service failed, or tries again, as sentences for people."""
        said = (("failed", self.failure), ("tries again", self.trouble))
        return [
            f"{type(self).__name__} {verb}: {error if isinstance(error, StoreError) else repr(error)}"
            for verb, error in said
            if error is not None
        ]


def monotonic_ms() -> int:
    """Return milliseconds of a clock that never goes back."""
    return time.monotonic_ns() // 1_000_000


def note_flushed(segments: MappedFileQueue, checkpoint: StoreCheckpoint) -> None:
    """Set the last durable store time in the checkpoint, once a thorough flush has found one."""
    if segments.store_timestamp_ms > 0:
        checkpoint.physic_ms = segments.store_timestamp_ms
