"""RemoteFilesystem: a folder of holes in place of a store in an object store; reads fill it.

    s3://bucket/store/commitlog/00000000000000000000      1 GiB
    FOLDER/commitlog/00000000000000000000                 1 GiB, a hole; blocks arrive when they are read

A page of a map may be unreadable, so every reader populates pages before it touches them (readable.py). Here that call
fetches them, also from a backup. One listing gives names, lengths and times; nothing is written to the store.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from store.errors import NotAStore, StoreError
from store.files.connect import connect_remote
from store.files.filesystem import Descriptor, Filesystem
from store.files.mapping import PAGE_SIZE
from store.files.remote_requests import BLOCK_BYTES
from store.files.scratch import Scratch
from store.formats.backup_manifest import BACKUP_DAMAGED
from store.layout import BACKUP


class RemoteFilesystem(Filesystem):
    """The files at `address` as files below `folder`; their ranges are fetched on use."""

    fetches = True

    def __init__(self, address: str, folder: Path) -> None:
        self._place = connect_remote(address)
        self.holds_log_alone = address.startswith(BACKUP)
        self._folder = folder
        self._missing: dict[Path, set[int]] = {}
        self._ends: dict[tuple[Path, int], int] = {}
        self._lock = threading.Lock()
        self._make_holes(address)

    def _make_holes(self, address: str) -> None:
        found = self._place.list_tree()
        if not found:
            raise self._place.absent()
        for name, entry in found.items():
            path = self._folder / name
            if ".." in path.parts:
                raise NotAStore("a name in it leads out of it", file=f"{address}/{name}")
            if entry.is_folder:
                self.make_folder(path)
                continue
            self.make_folder(path.parent)
            self.truncate(self.open_new(path), entry.size)
            self.utime(path, entry.mtime_ns)
            self._missing[path] = set(range(-(-entry.size // BLOCK_BYTES)))

    # The operations of a Filesystem that read bytes.

    def populate(self, path: Path, view: memoryview, start: int, stop: int) -> bool:
        return self._fetch_whole(path, start, stop) and super().populate(path, view, start, stop)

    def _fetch_whole(self, path: Path, start: int, stop: int) -> bool:
        """Fetch a range; return False if it `passes_damage` and the backup lacks bytes of the range."""
        blocks = range(start // BLOCK_BYTES, -(-stop // BLOCK_BYTES))
        try:
            if not any((path, one) in self._ends for one in blocks):
                self._fetch(path, start, stop)
                return True
        except StoreError as error:
            self._pass(error)
        ends = {one: self._fetch_block(path, one) for one in blocks}
        return all(end >= min(stop, (one + 1) * BLOCK_BYTES) for one, end in ends.items())

    def _fetch_block(self, path: Path, block: int) -> int:
        """Fetch a block, or its pages up to the first that the backup lacks; return their end."""
        if block in self._missing[path] and (path, block) not in self._ends:
            position, stop, size = block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES, BLOCK_BYTES
            while position < stop:
                try:
                    self._fetch_part(path, position, size)
                    position += size
                except StoreError as error:
                    self._pass(error)
                    if size == PAGE_SIZE:
                        break
                    size = PAGE_SIZE
            self._ends[path, block] = position
        return self._ends.get((path, block), (block + 1) * BLOCK_BYTES)

    def _pass(self, error: StoreError) -> None:
        if error.code != BACKUP_DAMAGED or not self.passes_damage:
            raise error

    def read(self, descriptor: Descriptor, position: int, size: int) -> bytes:
        # Bytes that a backup lacks are zeros here: a table of them counts as damaged.
        self._fetch_whole(descriptor.path, position, position + size)
        return super().read(descriptor, position, size)

    def copy_range(self, source: Descriptor, target: Descriptor, position: int, size: int) -> None:
        self._fetch(source.path, position, position + size)
        super().copy_range(source, target, position, size)

    def written_ranges(self, path: Path, position: int) -> Iterator[tuple[int, int]]:
        """Yield the rest as one range: a remote file does not list its holes."""
        if path not in self._missing:
            yield from super().written_ranges(path, position)
        elif position < (size := self.stat(path).st_size):
            yield position, size

    def next_written(self, path: Path, position: int) -> int:
        """Return `position` while it is in the file, as the whole rest counts as written."""
        return next((start for start, _ in self.written_ranges(path, position)), sys.maxsize)

    def _fetch(self, path: Path, start: int, stop: int) -> None:
        """Fetch the missing blocks of [start, stop), adjacent ones in one request."""
        missing = self._missing.get(path)
        if not missing or stop <= start:
            return
        with self._lock:
            wanted = [number for number in range(start // BLOCK_BYTES, -(-stop // BLOCK_BYTES)) if number in missing]
            if not wanted:
                return
            for run in np.split(wanted, np.flatnonzero(np.diff(wanted) != 1) + 1):
                self._fetch_part(path, int(run[0]) * BLOCK_BYTES, len(run) * BLOCK_BYTES)
            missing.difference_update(wanted)

    def _fetch_part(self, path: Path, position: int, size: int) -> None:
        mtime_ns, name = self.mtime_ns(path), path.relative_to(self._folder).as_posix()
        self.write(self.open_write(path), position, self._place.map(name, position, size).buffer)
        self.utime(path, mtime_ns)


def mirror_of(address: str, scratch: str | Path | None = None) -> tuple[Path, RemoteFilesystem]:
    """Mirror a remote store in a folder below `scratch`; the folder ends with the returned object."""
    folder = Scratch(scratch)
    try:
        remote = RemoteFilesystem(address, folder.folder)
    except BaseException:
        folder.close()
        raise
    weakref.finalize(remote, folder.close)
    return folder.folder, remote
