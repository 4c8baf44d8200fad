"""CurrentParts: the opened parts that readers work on, and how fresh ones take their place while they do.

A reader keeps the parts it began with; parts that were replaced are closed when the last reader has left them. So a
refresh waits for nobody, and takes no file away from under a reader.
"""

from __future__ import annotations

import threading
from typing import Any

from store.store_parts import StoreParts


class _View:
    """Opened parts with their scratch folder, and how many readers are on them. One `with` block is one reader."""

    __slots__ = ("_is_retired", "_lock", "_reader_count", "_scratch", "parts")

    def __init__(self, parts: StoreParts, scratch: Any) -> None:
        self.parts = parts
        self._scratch = scratch
        self._reader_count = 0
        self._is_retired = False
        self._lock = threading.Lock()

    def hold(self) -> None:
        with self._lock:
            self._reader_count += 1

    def __enter__(self) -> StoreParts:
        """The reader was counted when it was given the view."""
        return self.parts

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._reader_count -= 1
            is_last = self._is_retired and not self._reader_count
        if is_last:
            self._close()

    def retire(self) -> None:
        """Closes the parts, once the last reader has left. Nobody is given the view any more."""
        with self._lock:
            is_last = not self._is_retired and not self._reader_count
            self._is_retired = True
        if is_last:
            self._close()

    def _close(self) -> None:
        self.parts.close()
        if self._scratch is not None:
            self._scratch.cleanup()


class CurrentParts:
    """One store's parts. `scratch`, a TemporaryDirectory, holds what was built for them and goes when they go."""

    def __init__(self, parts: StoreParts, scratch: Any = None) -> None:
        self._view = _View(parts, scratch)
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def parts(self) -> StoreParts:
        """The parts as they are now, for whoever knows that nobody replaces them."""
        return self._view.parts

    def reading(self) -> _View:
        """For one `with` block: the parts as they are now, open to its end whatever takes their place meanwhile."""
        with self._lock:
            view = self._view
            view.hold()
        return view

    def replace(self, fresh: CurrentParts) -> None:
        """Takes over what `fresh` holds; readers that come from now on see that."""
        with self._lock:
            old = self._view
            if self._is_closed:
                old = fresh._view
            else:
                self._view = fresh._view
        old.retire()

    def close(self) -> None:
        """Closes the parts, once the last reader has left."""
        with self._lock:
            self._is_closed = True
        self._view.retire()
