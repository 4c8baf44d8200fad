"""Ranges of files at their boundaries: what is mapped, searched and found by an offset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store.files import byte_search
from store.files.filesystem import Filesystem
from store.files.mapped_file_queue import MappedFileQueue
from store.files.numbered import SOME_QUEUES, numbered_files, some_queue_files
from store.files.segment_folders import find_member_logs, find_members, member_log
from store.files.store_reader import StoreReader
from store.layout import segment_name

SIZE = 100


def queue_of(folder: Path, *starts: int) -> MappedFileQueue:
    folder.mkdir()
    for start in starts:
        (folder / segment_name(start)).write_bytes(bytes(SIZE))
    queue = MappedFileQueue(folder, SIZE, Filesystem(), writable=True)
    queue.load()
    return queue


# Files that begin there, an offset, and the file that holds it.
FOUND = [
    ((), 0, None), ((0,), 0, 0), ((0,), 99, 0), ((0,), 100, None), ((0,), -1, None), ((200, 300), 199, None),
    ((200, 300), 200, 200), ((200, 300), 299, 200), ((200, 300), 300, 300), ((200, 300), 399, 300),
    ((200, 300), 400, None), ((0, 200, 300), 100, None), ((0, 200, 300), 199, None), ((0, 200, 300), 200, 200),
    ((0, 200, 300), 350, 300), ((50, 150), 149, 50), ((50, 150), 150, 150), ((50, 150), 250, None),
]  # fmt: skip


@pytest.mark.parametrize(("starts", "offset", "found"), FOUND)
def test_the_file_of_an_offset_holds_its_byte(
    starts: tuple[int, ...], offset: int, found: int | None, tmp_path: Path
) -> None:
    queue = queue_of(tmp_path / "q", *starts)
    file, or_first = queue.find_by_offset(offset), queue.find_by_offset(offset, first_if_missing=True)
    assert (None if file is None else file.file_start) == found
    wanted = found if found is not None else min(starts, default=None)
    assert (None if or_first is None else or_first.file_start) == wanted


@pytest.mark.parametrize(
    ("end", "kept", "position"), [
        (0, [0], 0), (1, [0], 1), (100, [0, 100], 0), (101, [0, 100], 1), (200, [0, 100], 100), (250, [0, 100], 100),
    ],
)  # fmt: skip
def test_a_truncation_deletes_the_files_after_its_end(end: int, kept: list[int], position: int, tmp_path: Path) -> None:
    queue = queue_of(tmp_path / "q", 0, 100)
    gone = [tmp_path / "q" / segment_name(start) for start in (0, 100) if start not in kept]
    assert queue.truncate_dirty_files(end) == gone
    assert [file.file_start for file in queue.files] == kept
    assert [file.wrote for file in queue.files] == [100] * (len(kept) - 1) + [position]
    assert (queue.min_offset, queue.max_offset, queue.max_wrote_offset) == (0, min(end, 200), min(end, 200))
    assert not any(path.exists() for path in gone)


@pytest.mark.parametrize(
    ("position", "size", "data"),
    [(0, None, b"abcdef"), (2, None, b"cdef"), (2, 3, b"cde"), (2, 4, b"cdef"), (2, 9, b"cdef"), (6, 1, b""),
     (9, 1, b""), (0, 0, b"")],
)  # fmt: skip
def test_a_range_of_a_file_ends_with_the_file(position: int, size: int | None, data: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abcdef")
    assert bytes(StoreReader(str(tmp_path)).map("file", position, size).buffer) == data


@pytest.mark.parametrize("search", [byte_search._MEMMEM, None], ids=["memmem", "re"])
@pytest.mark.parametrize(
    ("start", "stop", "places"),
    [(0, 9, [0, 3, 6]), (1, 9, [3, 6]), (0, 8, [0, 3, 6]), (0, 7, [0, 3]), (3, 5, [3]), (3, 4, []), (4, 4, [])],
)  # fmt: skip
def test_bytes_are_found_that_end_in_the_range(
    search: Any, start: int, stop: int, places: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_search, "_MEMMEM", search)
    assert list(byte_search.find_bytes(memoryview(b"ab.ab.aba"), b"ab", start, stop)) == places
    assert list(byte_search.find_bytes(memoryview(b"aaaa"), b"aa", 0, 4)) == [0, 2]


def test_members_of_a_group_have_folders_and_their_logs_entries(tmp_path: Path) -> None:
    fs = Filesystem()
    assert find_members(tmp_path / "none", fs) == []
    (tmp_path / "dledger-n0" / "data").mkdir(parents=True)
    (tmp_path / "dledger-n1").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "dledger-file").touch()
    assert find_members(tmp_path, fs) == [tmp_path / "dledger-n0", tmp_path / "dledger-n1"]
    assert find_member_logs(tmp_path, fs) == [tmp_path / "dledger-n0"]
    data = tmp_path / "dledger-n0" / "data"
    assert member_log(data.parent, fs) == (data,)
    (tmp_path / "commitlog").mkdir()
    assert member_log(data.parent, fs) == (data, tmp_path / "commitlog")


def test_the_files_of_the_first_queues_are_looked_at(tmp_path: Path) -> None:
    for number in range(SOME_QUEUES + 2):
        queue = tmp_path / "T" / f"{number:02d}"
        queue.mkdir(parents=True)
        if number:
            (queue / segment_name(0)).touch()
        (queue / "other").touch()
    (tmp_path / "T" / "00" / segment_name(1)).mkdir()
    found = [entry.path.parent.name for entry in some_queue_files(tmp_path, Filesystem())]
    assert found == [f"{number:02d}" for number in range(1, SOME_QUEUES + 1)]
    assert numbered_files(tmp_path / "T" / "00", Filesystem()) == []
