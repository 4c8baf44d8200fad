"""Work on segments side by side: a digest can need more time than the device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from store.errors import StoreIOError

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 2
"""More would compete for the device."""
LEAST_BYTES = 64 << 20
"""Smaller segments are taken one after another, as threads would gain nothing."""


class SideBySide:
    """Count the bytes of work on segments; `on_progress` gets those done and those in all."""

    def __init__(self, in_all: int, on_progress: Callable[[int, int], None]) -> None:
        self.in_all, self._on_progress = in_all, on_progress
        self._done, self._lock, self._is_over = 0, threading.Lock(), False

    def tell(self, count: int) -> None:
        """Count bytes; StoreIOError in a thread whose work is given up."""
        if self._is_over:
            raise StoreIOError("the work was given up")
        with self._lock:
            self._done += count
            self._on_progress(self._done, self.in_all)

    def map(self, work: Callable[[Item], Result], items: Sequence[Item], item_bytes: int) -> Iterator[Result]:
        """Yield the results in order; an error or interrupt ends the other thread at its next `tell`.

        item_bytes  of the largest item
        """
        if item_bytes < LEAST_BYTES or len(items) < AT_ONCE:
            yield from map(work, items)
            return
        # Imported here, as most commands have no thread.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="copy") as pool:
            try:
                yield from pool.map(work, items)
            except BaseException:
                self._is_over = True
                raise
