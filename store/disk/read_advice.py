"""ReadAdvice: tells the kernel the pages that a long walk needs next, and those it is done with.

    ... let go ...|<- KEPT_BEHIND_BYTES ->| walk |<- READ_AHEAD_BYTES ->|

Reading ahead lets the device work while records are verified. Walked pages leave the process, so that it does not grow
with the log; they stay a while, for builders that lag behind the walk. Only when asked for they leave the page cache
too: that keeps a walk over hundreds of segments from pushing out the pages that a live broker works with. Advice that
the system does not take costs nothing but time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from store.disk.filesystem import Descriptor, Filesystem
from store.disk.mapping import PAGE_SIZE

READ_AHEAD_BYTES = 64 * 1024 * 1024
KEPT_BEHIND_BYTES = 128 * 1024 * 1024
_STEP_BYTES = 16 * 1024 * 1024


class ReadAdvice:
    """The advice of one walk.

    `cold` drops the pages behind the walk from the page cache.
    """

    def __init__(self, fs: Filesystem, *, cold: bool = False) -> None:
        self._fs = fs
        self._cold = cold
        self._files: list[_WalkedFile] = []
        """Those that have pages to be let go, and the one that is walked now."""
        self._ahead = 0

    def moved_to(self, path: Path, view: memoryview, position: int) -> None:
        """Advances the walk to `position` of the file at `path`, mapped whole by `view`."""
        if not self._files or path != self._files[-1].path:
            self._begin(path, view)
        self._files[-1].position = position
        ahead = position + READ_AHEAD_BYTES
        if ahead - _STEP_BYTES > self._ahead:
            start = max(self._ahead, position)
            self._fs.will_need(self._files[-1].descriptor, start, ahead - start)
            self._ahead = ahead
        self._drop(KEPT_BEHIND_BYTES, _STEP_BYTES)

    def finish(self) -> None:
        """Lets go of the rest as well; call it when the walked records are not read any more."""
        if self._files:
            self._files[-1].position = len(self._files[-1].view)
            self._drop(0, 0)

    def _begin(self, path: Path, view: memoryview) -> None:
        if self._files:
            self._files[-1].position = len(self._files[-1].view)
        self._files = [file for file in self._files if file.dropped < file.position]
        self._files.append(_WalkedFile(path, view, self._fs.open_read(path)))
        self._ahead = 0

    def _drop(self, kept: int, step: int) -> None:
        """Lets go of pages more than `kept` bytes behind the walk, `step` bytes at a time."""
        for file in reversed(self._files):
            end = file.position - kept
            end -= end % PAGE_SIZE
            if end - file.dropped > step or (end == file.position > file.dropped):
                file.drop_to(end, self._fs, cold=self._cold)
            kept = max(0, kept - file.position)


@dataclass(slots=True)
class _WalkedFile:
    """A file of the walk: how far it was walked, and how far its pages were let go."""

    path: Path
    view: memoryview
    descriptor: Descriptor
    position: int = 0
    dropped: int = 0

    def drop_to(self, end: int, fs: Filesystem, *, cold: bool) -> None:
        # From the start again: builders may have brought pages back. A page that some process maps stays in the cache.
        fs.let_go(self.view, 0, end)
        if cold:
            fs.dont_need(self.descriptor, self.dropped, end - self.dropped)
        self.dropped = end
