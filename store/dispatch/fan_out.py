"""FanOut: every handler in a thread of its own, so that the walk, the queues and the index are built side by side.

    walk ──Run──┬──▶ [queue of runs] ──▶ ConsumeQueueStore.dispatch
                └──▶ [queue of runs] ──▶ IndexService.dispatch

Each handler gets all runs in log order, so the result does not depend on threads. At most RUNS_IN_FLIGHT runs wait for
a handler, which bounds the memory. The kernels release the GIL; where they are not compiled, threads gain nothing and
the handlers are called directly.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from store.kernels.run import Run

RUNS_IN_FLIGHT = 16


class Handler(Protocol):
    """What is built from the log."""

    def dispatch(self, run: Run) -> None: ...


class FanOut:
    """A handler that passes runs on to `handlers`; leaving its context waits for them and raises what they raised."""

    def __init__(self, handlers: Sequence[Handler], *, in_threads: bool = True) -> None:
        self._handlers = handlers
        self._in_threads = in_threads and len(handlers) > 1
        self._workers: list[_Worker] = []

    def dispatch(self, run: Run) -> None:
        if not self._workers:
            if not self._in_threads or not run.kernels.compiled:
                for handler in self._handlers:
                    handler.dispatch(run)
                return
            self._workers = [_Worker(handler) for handler in self._handlers]
        for worker in self._workers:
            worker.give(run)

    def __enter__(self) -> FanOut:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.finish(drop=error is not None)
        failures = [worker.failure for worker in self._workers if worker.failure is not None]
        self._workers = []
        if failures and error is None:
            raise failures[0]


class _Worker:
    """One handler's thread."""

    def __init__(self, handler: Handler) -> None:
        self.failure: BaseException | None = None
        self._handler = handler
        self._runs: queue.Queue[Run | None] = queue.Queue(RUNS_IN_FLIGHT)
        self._dropped = False
        self._thread = threading.Thread(target=self._work, name=f"{type(handler).__name__}.dispatch")
        self._thread.start()

    def give(self, run: Run) -> None:
        self._runs.put(run)
        if self.failure is not None:
            raise self.failure

    def finish(self, *, drop: bool) -> None:
        self._dropped = drop
        self._runs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (run := self._runs.get()) is not None:
            # After a failure the runs are only taken off, so that the walk is not left waiting.
            if self.failure is None and not self._dropped:
                try:
                    self._handler.dispatch(run)
                except BaseException as error:
                    self.failure = error
