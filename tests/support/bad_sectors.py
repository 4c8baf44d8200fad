"""BadSectors: a Filesystem whose device can't read some pages of some files.

    BadSectors({"00000000000000000000": {3, 4}})      pages 3 and 4 of every file of that name

Mapped pages fail in the populate step, as on a bad device; what is read without a map fails with EIO.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from store.errors import StoreIOError
from store.files.filesystem import Descriptor, Filesystem
from store.files.mapping import PAGE_SIZE


class BadSectors(Filesystem):
    """`pages` are the numbers of the bad pages by file name."""

    def __init__(self, pages: Mapping[str, Collection[int]]) -> None:
        self.pages = pages

    def populate(self, path: Path, view: memoryview, start: int, stop: int) -> bool:
        return not self.is_bad(path, start, stop) and super().populate(path, view, start, stop)

    def read(self, descriptor: Descriptor, position: int, size: int) -> bytes:
        if self.is_bad(descriptor.path, position, position + size):
            error = OSError(errno.EIO, os.strerror(errno.EIO))
            raise StoreIOError.from_os(error, descriptor.path, "read the file")
        return super().read(descriptor, position, size)

    def read_start(self, path: str, size: int) -> bytes:
        return self.read(self.open_read(Path(path)), 0, size)

    def read_alone(self, path: str, size: int) -> bytes | None:
        return None if Path(path).name in self.pages else super().read_alone(path, size)

    def is_bad(self, path: Path, start: int, stop: int) -> bool:
        first, behind = start // PAGE_SIZE, -(-stop // PAGE_SIZE)
        return any(first <= page < behind for page in self.pages.get(path.name, ()))
