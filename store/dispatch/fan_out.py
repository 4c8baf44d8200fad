"""FanOut: every handler in its own thread, so that walk, queues and index proceed side by side.

    walk ──Run──┬──▶ [runs] ──▶ ConsumeQueueStore.dispatch
                └──▶ [runs] ──▶ IndexService.prepare ──▶ [runs, hashed keys] ──▶ IndexService.take

A handler that can do a part of its work before its turn has `prepare` and `take`, and a thread for each; the index,
which takes longest, is one. Each handler gets all runs in log order, so the result does not depend on threads. At most
RUNS_IN_FLIGHT runs wait for a thread, which bounds the memory. The kernels release the GIL; where they are not
compiled, threads gain nothing and the handlers are called directly.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar, runtime_checkable

from store import kernels
from store.formats.run import Run

RUNS_IN_FLIGHT = 4
FINISH_POLL_S = 0.5

Piece = TypeVar("Piece")


class Handler(Protocol):
    """Builds files from the log."""

    def dispatch(self, run: Run) -> None: ...


@runtime_checkable
class StagedHandler(Handler, Protocol[Piece]):
    """A handler whose dispatch(run) takes every piece of prepare(run).

    It may prepare the next pieces meanwhile.

    The pieces are of bounded size, as RUNS_IN_FLIGHT of them may wait.
    """

    def prepare(self, run: Run) -> Iterable[Piece]: ...

    def take(self, run: Run, piece: Piece) -> None: ...


class FanOut:
    """Passes runs on to `handlers`; leaving its context waits for them and raises their errors."""

    def __init__(self, handlers: Sequence[Handler], *, in_threads: bool = True) -> None:
        self._handlers = handlers
        self._in_threads = in_threads and len(handlers) > 1
        self._workers: list[_Worker] = []
        self._first: list[_Worker] = []
        """The workers that get the runs; the others get what these have prepared."""

    def dispatch(self, run: Run) -> None:
        if not self._workers:
            if not self._in_threads or not kernels.COMPILED:
                for handler in self._handlers:
                    handler.dispatch(run)
                return
            self._begin()
        for worker in self._first:
            worker.give(run)

    def _begin(self) -> None:
        for handler in self._handlers:
            chain = _chain_for(handler)
            self._workers += chain
            self._first.append(chain[0])
        # An interrupt from here on finds every thread in the list.
        for worker in self._workers:
            worker.start()

    def __enter__(self) -> FanOut:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for worker in self._workers:
                worker.finish(drop=error is not None)
        except BaseException:
            # Interrupted while waiting: no thread may be left that waits for more.
            for worker in self._workers:
                worker.drop()
            for worker in self._workers:
                worker.finish(drop=True)
            raise
        failures = [worker.failure for worker in self._workers if worker.failure is not None]
        self._workers, self._first = [], []
        if failures and error is None:
            raise failures[0]


def _chain_for(handler: Handler) -> list[_Worker]:
    """The threads of a handler; each gives to the next one, so that they are ended in this order."""
    name = type(handler).__name__
    if not isinstance(handler, StagedHandler):
        return [_Worker(f"{name}.dispatch", handler.dispatch)]

    def take(item: tuple[Run, Any]) -> None:
        handler.take(*item)

    taker = _Worker(f"{name}.take", take)

    def prepare(run: Run) -> None:
        for piece in handler.prepare(run):
            taker.give((run, piece))

    return [_Worker(f"{name}.prepare", prepare), taker]


class _Worker:
    """A thread that does `work` with one item after the other."""

    def __init__(self, name: str, work: Callable[[Any], None]) -> None:
        self.failure: BaseException | None = None
        self._work = work
        self._items: queue.Queue[Any] = queue.Queue(RUNS_IN_FLIGHT)
        self._dropped = False
        # A second interrupt must not wait for it.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def give(self, item: Any) -> None:
        self._items.put(item)
        if self.failure is not None:
            raise self.failure

    def drop(self) -> None:
        """Discards items from here on, so that no thread is left waiting to give one."""
        self._dropped = True

    def finish(self, *, drop: bool) -> None:
        """Waits for the thread to do, or to drop, its items; may be called again after an interrupt."""
        self._dropped = self._dropped or drop
        while self._thread.is_alive():
            with contextlib.suppress(queue.Full):
                self._items.put(None, timeout=FINISH_POLL_S)
            self._thread.join(FINISH_POLL_S)

    def _run(self) -> None:
        while (item := self._items.get()) is not None:
            if self.failure is None and not self._dropped:
                try:
                    self._work(item)
                except BaseException as error:
                    self.failure = error
