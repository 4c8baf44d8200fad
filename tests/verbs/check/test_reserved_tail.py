"""A segment is reserved whole: past the log's end a check reads only what was ever written there."""

from __future__ import annotations

from pathlib import Path

import pyarrow.fs as pafs
import pytest

from store import Message, open_store
from store.files.filesystem import Filesystem
from store.files.places import RemotePlace
from store.files.store_reader import StoreReader
from store.verbs.check.check import check_files
from store.verbs.check.promises import HEAD_SIZE

SEGMENT_SIZE = 64 << 20
SETTINGS = {"mappedFileSizeCommitLog": SEGMENT_SIZE, "mappedFileSizeConsumeQueue": 400, "maxHashSlotNum": 64}
SETTINGS |= {"maxIndexNum": 256}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with three records at the head of one large segment."""
    with open_store(tmp_path / "s", read_only=False, settings=SETTINGS) as store:
        assert all(store.put(Message("A", b"body")).is_ok for _ in range(3))
    return tmp_path / "s"


def segment_of(root: Path) -> Path:
    return root / "commitlog" / f"{0:020d}"


def leave_behind(root: Path, position: int) -> None:
    """Writes a record that says where it stands past the log's end, as a cut leaves one."""
    with segment_of(root).open("r+b") as file:
        record = bytearray(file.read(int.from_bytes(file.read(4), "big") - 4))
        record[24:32] = position.to_bytes(8, "big")
        file.seek(position)
        file.write((len(record) + 4).to_bytes(4, "big") + record)


@pytest.mark.parametrize("written", [[], [(4096, 8192)], [(4096, 8192), (1 << 20, 3 << 20)]])
def test_the_reserved_tail_of_a_segment_is_not_read(
    root: Path, written: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, asked_for = StoreReader.read, []

    def observed(self: StoreReader, path: str, position: int = 0, size: int | None = None) -> memoryview:
        if position and path.startswith("commitlog") and (size or 0) > HEAD_SIZE:
            asked_for.append((position, position + (size or 0)))
        return read(self, path, position, size)

    monkeypatch.setattr(StoreReader, "read", observed)
    monkeypatch.setattr(Filesystem, "written_ranges", lambda *_: iter(written))
    assert list(check_files(StoreReader(str(root)))) == []
    assert asked_for == written


@pytest.mark.parametrize("position", [1 << 20, SEGMENT_SIZE - 4096])
def test_a_record_left_behind_the_end_is_found_wherever_it_lies(root: Path, position: int) -> None:
    leave_behind(root, position)
    found = [(finding.kind, finding.offset, finding.count) for finding in check_files(StoreReader(str(root)))]
    assert found == [("stale-tail", position, 1)]


def test_of_a_remote_file_all_of_the_rest_counts_as_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = StoreReader(str(root))
    assert files.tree[0] == root
    remote = RemotePlace(str(root), pafs.SubTreeFileSystem("/", pafs.LocalFileSystem()), str(root))
    monkeypatch.setattr(files, "_place", remote)
    path = "commitlog/" + segment_of(root).name
    assert list(files.written_ranges(path, 100)) == [(100, SEGMENT_SIZE)]
    assert list(files.written_ranges(path, SEGMENT_SIZE)) == []
    assert list(check_files(files)) == []
