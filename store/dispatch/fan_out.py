"""FanOut: every handler runs in its own thread, so that scan, queues and index proceed in parallel.

    walk ──Run──▶ [runs] ──▶ read_requests ──┬─▶ [runs, tags codes] ──▶ ConsumeQueueStore.put_units
                                             └─▶ [runs, keys] ──▶ IndexService.put_keys

Queues and index need properties of the same records; FanOut reads them once for both. Other handlers get the runs.
Each handler gets all runs in log order, so the result does not depend on threads. At most RUNS_IN_FLIGHT runs wait for
a thread, which bounds the memory. Compiled kernels release the GIL; without them threads gain nothing and FanOut calls
the handlers directly.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from store import kernels
from store.formats.run import Int64Array, Run
from store.structures.index.keys import KeyHasher, Keys
from store.threads import Worker

RUNS_IN_FLIGHT = 4
FINISH_POLL_S = 0.5


class Handler(Protocol):
    """A builder of files from the log."""

    def dispatch(self, run: Run) -> None: ...


@runtime_checkable
class UnitHandler(Handler, Protocol):
    """A handler that takes a run with its tags codes, in place of dispatch(run)."""

    @property
    def delay_levels_ms(self) -> Int64Array: ...

    def put_units(self, run: Run, codes: Int64Array) -> None: ...


@runtime_checkable
class KeyHandler(Handler, Protocol):
    """A handler that takes a run with its keys, some thousands at a time, in place of dispatch(run)."""

    @property
    def with_tags(self) -> bool: ...

    def put_keys(self, run: Run, keys: Keys) -> None: ...


class FanOut:
    """Pass runs on to `handlers`; leaving the context waits for the threads and raises their errors."""

    def __init__(self, handlers: Sequence[Handler], *, in_threads: bool = True) -> None:
        self._handlers = handlers
        self._in_threads = in_threads and len(handlers) > 1
        self._stages: list[_Stage] = []
        self._first: list[_Stage] = []
        """The stages that get the runs; the others get tags codes and keys from the stage that reads properties."""

    def dispatch(self, run: Run) -> None:
        if not self._stages:
            if not self._in_threads or not kernels.COMPILED:
                for handler in self._handlers:
                    handler.dispatch(run)
                return
            self._begin()
        for stage in self._first:
            stage.give(run)

    def _begin(self) -> None:
        keys = next((handler for handler in self._handlers if isinstance(handler, KeyHandler)), None)
        units = next((handler for handler in self._handlers if isinstance(handler, UnitHandler)), None)
        if keys is None:
            units = None
        others = [handler for handler in self._handlers if handler is not keys and handler is not units]
        self._stages = [_Stage(f"{type(handler).__name__}.dispatch", handler.dispatch) for handler in others]
        self._first = list(self._stages)
        if keys is not None:
            readers = _readers(units, keys)
            self._stages += readers
            self._first.append(readers[0])
        # The list is complete before the first start, so that an interrupt can end every thread.
        for stage in self._stages:
            stage.start()

    def __enter__(self) -> FanOut:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._finish(drop=error is not None)
        except BaseException:
            # After an interrupt no thread may keep waiting for items.
            self._finish(drop=True)
            raise
        failures = [stage.failure for stage in self._stages if stage.failure is not None]
        self._stages, self._first = [], []
        if failures and error is None:
            raise failures[0]

    def _finish(self, *, drop: bool) -> None:
        """Wait until the threads have processed or dropped their items; callable again after an interrupt."""
        for stage in self._stages if drop else ():
            stage.drop()
        for stage in self._stages:
            stage.finish()


def _readers(units: UnitHandler | None, keys: KeyHandler) -> list[_Stage]:
    """Return the stage that reads properties, then those that it feeds: the order to end them."""
    hasher = KeyHasher(with_tags=keys.with_tags)
    key_putter = _Stage(f"{type(keys).__name__}.put_keys", lambda item: keys.put_keys(*item))

    def read_keys(run: Run) -> None:
        for piece in hasher.keys_of(run):
            key_putter.give((run, piece.copy()))

    if units is None:
        return [_Stage("read_keys", read_keys), key_putter]
    unit_putter = _Stage(f"{type(units).__name__}.put_units", lambda item: units.put_units(*item))

    def read_requests(run: Run) -> None:
        codes = np.empty(run.count, np.int64)
        for piece in hasher.keys_and_codes(run, units.delay_levels_ms, codes):
            key_putter.give((run, piece.copy()))
        unit_putter.give((run, codes))

    return [_Stage("read_requests", read_requests), key_putter, unit_putter]


class _Stage:
    """A thread that calls `work` with one item after the other."""

    def __init__(self, name: str, work: Callable[[Any], None]) -> None:
        self.failure: BaseException | None = None
        self._work = work
        self._items: queue.Queue[Any] = queue.Queue(RUNS_IN_FLIGHT)
        self._dropped = False
        # A daemon, so that a second interrupt does not wait for it.
        self._thread = Worker(self._run, name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def give(self, item: Any) -> None:
        self._items.put(item)
        if self.failure is not None:
            raise self.failure

    def drop(self) -> None:
        """Discard all further items, so that no thread waits to add one."""
        self._dropped = True

    def finish(self) -> None:
        """Wait for the thread; may be called again after an interrupt."""
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
