"""CurrentView: the opened store of a reading store, and its replacement by a fresh one.

A reader keeps the opened store it began with. A replaced store is closed when its last reader ends. So a refresh
waits for no reader, and closes no file in use.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from store.errors import StoreClosed
from store.opened.opened_store import OpenedStore


class CurrentView:
    """The opened store for new readers, and the number of readers of each store that is still open."""

    def __init__(self, opened: OpenedStore) -> None:
        self.opened = opened
        """The current store, for callers during whose work no refresh replaces it."""
        self._reader_counts: Counter[int] = Counter()
        self._lock = threading.Lock()
        self._is_closed = False

    @contextmanager
    def reading(self) -> Iterator[OpenedStore]:
        """Yield the current store; it stays open to the end of the block even if a refresh replaces it.

        StoreClosed after `close`.
        """
        with self._lock:
            opened = self.opened
            if self._is_closed:
                raise StoreClosed("the store is closed", file=opened.layout.root)
            self._reader_counts[id(opened)] += 1
        try:
            yield opened
        finally:
            with self._lock:
                self._reader_counts[id(opened)] -= 1
                is_over = opened is not self.opened or self._is_closed
                is_last = is_over and not self._reader_counts[id(opened)]
            if is_last:
                opened.close()

    def replace(self, fresh: OpenedStore) -> None:
        """Make `fresh` the store of new readers; close the old one, or `fresh` if the view is closed."""
        with self._lock:
            old = fresh
            if not self._is_closed:
                old, self.opened = self.opened, fresh
            is_idle = not self._reader_counts[id(old)]
        if is_idle:
            old.close()

    def close(self) -> None:
        """Close the store, once the last reader has left."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            is_idle = not self._reader_counts[id(self.opened)]
        if is_idle and not was_closed:
            self.opened.close()
