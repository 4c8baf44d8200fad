"""CurrentView: the opened store that readers work on, and how fresh ones take their place while they do.

A reader keeps the opened it began with; opened that were replaced are closed when the last reader has left them. So a
refresh waits for nobody, and takes no file away from under a reader.
"""

from __future__ import annotations

import threading
from typing import Any

from store.opened.opened_store import OpenedStore


class _View:
    """Opened opened with their scratch folder, and how many readers are on them. One `with` block is one reader."""

    __slots__ = ("_is_retired", "_lock", "_reader_count", "_scratch", "opened")

    def __init__(self, opened: OpenedStore, scratch: Any) -> None:
        self.opened = opened
        self._scratch = scratch
        self._reader_count = 0
        self._is_retired = False
        self._lock = threading.Lock()

    def hold(self) -> None:
        with self._lock:
            self._reader_count += 1

    def __enter__(self) -> OpenedStore:
        """The reader was counted when it was given the view."""
        return self.opened

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._reader_count -= 1
            is_last = self._is_retired and not self._reader_count
        if is_last:
            self._close()

    def retire(self) -> None:
        """Closes the opened, once the last reader has left. Nobody is given the view any more."""
        with self._lock:
            is_last = not self._is_retired and not self._reader_count
            self._is_retired = True
        if is_last:
            self._close()

    def _close(self) -> None:
        self.opened.close()
        if self._scratch is not None:
            self._scratch.cleanup()


class CurrentView:
    """One store's opened. `scratch`, a TemporaryDirectory, holds what was built for them and goes when they go."""

    def __init__(self, opened: OpenedStore, scratch: Any = None) -> None:
        self._view = _View(opened, scratch)
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def opened(self) -> OpenedStore:
        """The opened as they are now, for whoever knows that nobody replaces them."""
        return self._view.opened

    def reading(self) -> _View:
        """For one `with` block: the opened as they are now, open to its end whatever takes their place meanwhile."""
        with self._lock:
            view = self._view
            view.hold()
        return view

    def replace(self, fresh: CurrentView) -> None:
        """Takes over what `fresh` holds; readers that come from now on see that."""
        with self._lock:
            old = self._view
            if self._is_closed:
                old = fresh._view
            else:
                self._view = fresh._view
        old.retire()

    def close(self) -> None:
        """Closes the opened, once the last reader has left."""
        with self._lock:
            self._is_closed = True
        self._view.retire()
