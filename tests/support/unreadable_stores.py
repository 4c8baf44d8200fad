"""Stores with a sector that cannot be read."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from store.errors import StoreIOError
from store.files.filesystem import Descriptor, Filesystem
from tests.support.bad_sectors import BadSectors

LOG = f"{0:020d}"
QUEUE = "0/00000000000000000000"
SIZES = {
    "mappedFileSizeCommitLog": 1 << 16,
    "mappedFileSizeConsumeQueue": 20 * 1024,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
}


MESSAGES = 900


@dataclass(frozen=True)
class Sector:
    """A page of one file below the store."""

    path: str
    page: int

    @classmethod
    def all_of(cls, root: Path) -> dict[str, Sector]:
        index = min((root / "index").iterdir()).name
        segment = max(path.name for path in (root / "commitlog").iterdir())
        return {
            "the first page of the log": cls(f"commitlog/{LOG}", 0),
            "a page in the middle of the log": cls(f"commitlog/{LOG}", 7),
            "a page of the last segment": cls(f"commitlog/{segment}", 1),
            "the first page of a queue": cls(f"consumequeue/T/{QUEUE}", 0),
            "a page in the middle of a queue": cls(f"consumequeue/T/{QUEUE}", 1),
            "the header of the index": cls(f"index/{index}", 0),
            "the entries of the index": cls(f"index/{index}", 5),
        }


PLACES = [
    "the first page of the log",
    "a page in the middle of the log",
    "a page of the last segment",
    "the first page of a queue",
    "a page in the middle of a queue",
    "the header of the index",
    "the entries of the index",
]


def spoil(monkeypatch: pytest.MonkeyPatch, path: Path, page: int) -> None:
    """Makes a page unreadable for every Filesystem."""
    bad = BadSectors({path.name: {page}})
    populate, read = Filesystem.populate, Filesystem.read

    def spoiled_populate(fs: Filesystem, file: Path, view: memoryview, start: int, stop: int) -> bool:
        return not (file == path and bad.is_bad(file, start, stop)) and populate(fs, file, view, start, stop)

    def spoiled_read(fs: Filesystem, descriptor: Descriptor, position: int, size: int) -> bytes:
        if descriptor.path == path and bad.is_bad(path, position, position + size):
            raise StoreIOError.from_os(OSError(errno.EIO, os.strerror(errno.EIO)), path, "read the file")
        return read(fs, descriptor, position, size)

    monkeypatch.setattr(Filesystem, "populate", spoiled_populate)
    monkeypatch.setattr(Filesystem, "read", spoiled_read)
