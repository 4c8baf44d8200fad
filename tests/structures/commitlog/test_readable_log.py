"""A log that is read begins with its first segment."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.files.mapped_file_queue import MappedFileQueue
from store.structures.commitlog.readable_log import ReadableLog


@pytest.mark.parametrize(("starts", "start", "min_offset"), [([], 0, -1), ([0, 100], 0, 0), ([200, 300], 200, 200)])
def test_a_log_without_segments_starts_at_0(starts: list[int], start: int, min_offset: int, tmp_path: Path) -> None:
    for file_start in starts:
        (tmp_path / f"{file_start:020d}").write_bytes(bytes(100))
    segments = MappedFileQueue(tmp_path, 100, Filesystem(), writable=False)
    segments.load()
    log = ReadableLog(segments)
    assert (log.start, log.min_offset) == (start, min_offset)
