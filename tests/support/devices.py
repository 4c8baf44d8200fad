"""Devices that are full or hang, for a real store on them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from store.errors import StoreIOError
from store.files.filesystem import Descriptor, Filesystem

PATIENCE_S = 60


class FullDisk(Filesystem):
    """A disk that is as full as a test says: everywhere, or folder by folder."""

    def __init__(self, used: float | Callable[[Path], float]) -> None:
        self.used = used
        self.refused: set[str] = set()
        """Names of files that it doesn't delete."""

    def used_ratio(self, folder: Path) -> float:
        return self.used(folder) if callable(self.used) else self.used

    def unlink(self, path: Path) -> None:
        if path.name in self.refused:
            raise StoreIOError("operation not permitted", file=path)
        super().unlink(path)


class HungDevice(Filesystem):
    """A device that finishes no flush, or none in folders of one name, until its gate is opened.

    A file that has no name yet is made all the same.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.flush_count = 0

    def fdatasync(self, descriptor: Descriptor) -> None:
        if self.folder in (None, descriptor.path.parent.name) and self.exists(descriptor.path):
            self.entered.set()
            assert self.gate.wait(PATIENCE_S)
            self.flush_count += 1
        super().fdatasync(descriptor)
