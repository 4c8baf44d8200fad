"""Holes in place of a remote store's files: names, lengths and times of one listing, blocks when they are read."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem

from store.errors import DamagedFile, NotAStore
from store.files import mirror
from store.files.mapping import PAGE_SIZE
from store.files.mirror import RemoteFilesystem
from store.files.places import RemotePlace
from store.files.remote_requests import BLOCK_BYTES

DATA = bytes(range(256)) * (BLOCK_BYTES // 64)
"""Four blocks."""
CHANGED_NS = 1_700_000_000_000_000_000


class Place(RemotePlace):
    """A local folder as a remote place, which notes what is fetched."""

    def __init__(self, root: Path) -> None:
        super().__init__("s3://bucket/store", LocalFileSystem(), str(root))
        self.fetched: list[tuple[str, int, int | None]] = []

    def map(self, path: str, position: int, size: int | None):  # type: ignore[no-untyped-def]
        self.fetched.append((path, position, size))
        return super().map(path, position, size)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    root = tmp_path / "remote"
    (root / "commitlog").mkdir(parents=True)
    (root / "empty").mkdir()
    for name, data in {"commitlog/0": DATA, "commitlog/1": DATA + b"x", "abort": b""}.items():
        (root / name).write_bytes(data)
        os.utime(root / name, ns=(CHANGED_NS, CHANGED_NS))
    found = Place(root)
    monkeypatch.setattr(mirror, "connect_remote", lambda address: found)
    return found


@pytest.fixture
def mirrored(place: Place, tmp_path: Path) -> tuple[Path, RemoteFilesystem]:
    folder = tmp_path / "mirror"
    folder.mkdir()
    return folder, RemoteFilesystem("s3://bucket/store", folder)


def test_it_has_the_names_lengths_and_times_and_no_byte(mirrored: tuple[Path, RemoteFilesystem], place: Place) -> None:
    folder, _ = mirrored
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    assert found == ["abort", "commitlog", "commitlog/0", "commitlog/1", "empty"]
    files = [folder / name for name in ("abort", "commitlog/0", "commitlog/1")]
    assert [file.stat().st_size for file in files] == [0, 4 * BLOCK_BYTES, 4 * BLOCK_BYTES + 1]
    assert {file.stat().st_mtime_ns for file in files} == {CHANGED_NS}
    assert [file.stat().st_blocks for file in files] == [0, 0, 0]
    assert place.fetched == []


@pytest.mark.parametrize(
    ("reads", "fetched"),
    [
        ([(0, 1)], [(0, 1)]),
        ([(0, BLOCK_BYTES)], [(0, 1)]),
        ([(0, BLOCK_BYTES + 1)], [(0, 2)]),
        ([(BLOCK_BYTES - 1, 2)], [(0, 2)]),
        ([(BLOCK_BYTES, 1)], [(1, 1)]),
        ([(BLOCK_BYTES, 1), (0, 4 * BLOCK_BYTES)], [(1, 1), (0, 1), (2, 2)]),
        ([(0, 4 * BLOCK_BYTES), (0, 4 * BLOCK_BYTES)], [(0, 4)]),
        ([(4 * BLOCK_BYTES, 1)], [(4, 1)]),
        ([(0, 0)], []),
    ],
)
def test_missing_blocks_of_a_read_are_fetched_once_and_adjacent_ones_together(
    reads: list[tuple[int, int]],
    fetched: list[tuple[int, int]],
    mirrored: tuple[Path, RemoteFilesystem],
    place: Place,
) -> None:
    folder, fs = mirrored
    path = folder / "commitlog" / "1"
    for position, size in reads:
        assert fs.read(fs.open_read(path), position, size) == (DATA + b"x")[position : position + size]
    assert place.fetched == [("commitlog/1", first * BLOCK_BYTES, count * BLOCK_BYTES) for first, count in fetched]
    assert path.stat().st_mtime_ns == CHANGED_NS


def test_pages_are_fetched_before_a_map_shows_them_and_a_range_before_it_is_copied(
    mirrored: tuple[Path, RemoteFilesystem], tmp_path: Path
) -> None:
    folder, fs = mirrored
    path = folder / "commitlog" / "0"
    view = fs.map(fs.open_read(path), 4 * BLOCK_BYTES, writable=False)
    assert fs.populate(path, view, BLOCK_BYTES, 2 * BLOCK_BYTES)
    assert bytes(view[BLOCK_BYTES : 2 * BLOCK_BYTES]) == DATA[BLOCK_BYTES : 2 * BLOCK_BYTES]
    target = fs.open_new(tmp_path / "copy")
    fs.truncate(target, 4 * BLOCK_BYTES)
    fs.copy_range(fs.open_read(path), target, 3 * BLOCK_BYTES, 10)
    assert (tmp_path / "copy").read_bytes()[3 * BLOCK_BYTES :][:10] == DATA[3 * BLOCK_BYTES :][:10]


@pytest.mark.parametrize(("position", "ranges"), [(0, [(0, 5)]), (4, [(4, 5)]), (5, [])])
def test_the_rest_of_a_file_counts_as_written(
    position: int, ranges: list[tuple[int, int]], mirrored: tuple[Path, RemoteFilesystem]
) -> None:
    folder, fs = mirrored
    wanted = [(start * BLOCK_BYTES, min(stop * BLOCK_BYTES, len(DATA) + 1)) for start, stop in ranges]
    position = min(position * BLOCK_BYTES, len(DATA) + 1)
    assert list(fs.written_ranges(folder / "commitlog" / "1", position)) == wanted
    assert fs.next_written(folder / "commitlog" / "1", position) == (position if wanted else sys.maxsize)


def test_a_file_that_is_not_the_remote_stores_is_one_of_this_machine(
    mirrored: tuple[Path, RemoteFilesystem], place: Place
) -> None:
    folder, fs = mirrored
    (folder / "own").write_bytes(b"own")
    assert fs.read(fs.open_read(folder / "own"), 0, 3) == b"own"
    assert next(iter(fs.written_ranges(folder / "own", 0)))[0] == 0
    assert place.fetched == []


def test_a_store_of_nothing_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "remote").mkdir()
    monkeypatch.setattr(mirror, "connect_remote", lambda address: Place(tmp_path / "remote"))
    with pytest.raises(NotAStore, match=r"^s3://bucket/store: "):
        RemoteFilesystem("s3://bucket/store", tmp_path / "mirror")


class Lacking(Place):
    """A backup that lacks the bytes of its files from `end` on."""

    end = 0
    code = "backup-damaged"

    def map(self, path: str, position: int, size: int | None):  # type: ignore[no-untyped-def]
        assert size is not None
        if position + size > self.end:
            raise DamagedFile("too short", code=self.code)
        return super().map(path, position, size)


@pytest.mark.parametrize(
    ("end", "whole"),
    [
        (0, [False, False, False, False]),
        (PAGE_SIZE - 1, [False, False, False, False]),
        (PAGE_SIZE, [True, False, False, False]),
        (BLOCK_BYTES, [True, True, False, False]),
        (BLOCK_BYTES + PAGE_SIZE, [True, True, True, False]),
        (4 * BLOCK_BYTES, [True, True, True, True]),
    ],
)
def test_a_salvage_passes_the_pages_that_a_backup_lacks(
    end: int, whole: list[bool], tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = Lacking(tmp_path / "remote")
    lacking.end = end
    monkeypatch.setattr(mirror, "connect_remote", lambda address: lacking)
    (folder := tmp_path / "mirror").mkdir()
    fs = RemoteFilesystem("s3://bucket/store", folder)
    file = fs.open_read(folder / "commitlog" / "0")
    view = fs.map(file, 4 * BLOCK_BYTES, writable=False)
    ranges = ((0, PAGE_SIZE), (0, BLOCK_BYTES), (BLOCK_BYTES, BLOCK_BYTES + PAGE_SIZE), (0, 4 * BLOCK_BYTES))
    for (start, stop), is_whole in zip(ranges, whole, strict=True):
        if not is_whole:
            with pytest.raises(DamagedFile):
                fs.populate(file.path, view, start, stop)
    fs.passes_damage = True
    for _ in range(2):
        assert [fs.populate(file.path, view, *one) for one in ranges] == whole
    kept = end - end % PAGE_SIZE
    assert fs.read(file, 0, 4 * BLOCK_BYTES) == DATA[:kept] + bytes(4 * BLOCK_BYTES - kept)
    asked = len(lacking.fetched)
    fs.populate(file.path, view, 0, 4 * BLOCK_BYTES)
    assert len(lacking.fetched) == asked


def test_a_salvage_passes_no_other_error(tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = Lacking(tmp_path / "remote")
    lacking.code = "busy-remote"
    monkeypatch.setattr(mirror, "connect_remote", lambda address: lacking)
    (folder := tmp_path / "mirror").mkdir()
    fs = RemoteFilesystem("s3://bucket/store", folder)
    fs.passes_damage = True
    with pytest.raises(DamagedFile, match="too short"):
        fs.read(fs.open_read(folder / "commitlog" / "0"), 0, 1)
