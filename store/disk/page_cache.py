"""PageCache: what a long walk tells the kernel about the pages it needs next and no longer needs.

    ... dropped ...|<- KEPT_BEHIND_BYTES ->| walk |<- READ_AHEAD_BYTES ->|

Reading ahead lets the device work while records are verified. Dropping (only when asked for) keeps a walk over hundreds
of segments from pushing out the pages that a live broker works with; the pages stay a while, for builders that lag
behind the walk. Advice that the system does not take costs nothing but time.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from store.disk.filesystem import Descriptor, Filesystem

READ_AHEAD_BYTES = 64 * 1024 * 1024
KEPT_BEHIND_BYTES = 256 * 1024 * 1024
_STEP_BYTES = 16 * 1024 * 1024


class PageCache:
    """The advice of one walk. `cold` drops what was walked over."""

    def __init__(self, fs: Filesystem, *, cold: bool = False) -> None:
        self._fs = fs
        self._cold = cold
        self._path: Path | None = None
        self._descriptor: Descriptor | None = None
        self._view: memoryview | None = None
        self._ahead = self._dropped = 0

    def moved_to(self, path: Path, view: memoryview, position: int) -> None:
        """The walk has come to `position` of the file at `path`, which `view` maps whole."""
        if path != self._path:
            self._drop_to(len(self._view) if self._view is not None else 0)
            self._path, self._view, self._descriptor = path, view, self._fs.open_read(path)
            self._ahead = self._dropped = 0
        ahead = position + READ_AHEAD_BYTES
        if ahead - _STEP_BYTES > self._ahead and self._descriptor is not None:
            start = max(self._ahead, position)
            self._fs.will_need(self._descriptor, start, ahead - start)
            self._ahead = ahead
        if position - KEPT_BEHIND_BYTES > self._dropped + _STEP_BYTES:
            self._drop_to(position - KEPT_BEHIND_BYTES)

    def finish(self) -> None:
        """Drops the last file's pages as well; call it when nobody reads the walked records any more."""
        self._drop_to(len(self._view) if self._view is not None else 0)

    def _drop_to(self, position: int) -> None:
        end = position - position % mmap.PAGESIZE
        if not self._cold or self._descriptor is None or self._view is None or end <= self._dropped:
            return
        mapping = self._view.obj
        if isinstance(mapping, mmap.mmap):
            # A page that some process maps is not dropped, so the map lets go of it first.
            mapping.madvise(mmap.MADV_DONTNEED, self._dropped, end - self._dropped)
        self._fs.dont_need(self._descriptor, self._dropped, end - self._dropped)
        self._dropped = end
