"""A segment of a StoreReader, as a Segment for the scan of the log."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from store.files.readable import Stretch
from store.files.store_reader import StoredFile, StoreReader


class StoredSegment:
    """A Segment for the scan, mapped at its first use."""

    def __init__(self, files: StoreReader, file: StoredFile) -> None:
        self.path = Path(files.name_of(file.path))
        self.file_start = file.number
        self.size = self.readable_position = file.size
        self._files = files
        self.name = file.path

    @cached_property
    def _bytes(self) -> Stretch:
        return self._files.map(self.name)

    @property
    def buffer(self) -> memoryview:
        return self._bytes.buffer

    def readable_end(self, start: int, stop: int) -> int:
        return self._bytes.readable_end(start, stop)

    def behind_unreadable(self, start: int, stop: int) -> int:
        return self._bytes.behind_unreadable(start, stop)

    def next_written(self, position: int) -> int:
        return self._bytes.next_written(position)

    def written_end(self) -> int:
        return self._files.written_end(self.name)
