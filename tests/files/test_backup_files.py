"""A backed file read from front to back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.errors import BadRequest, DamagedFile, StoreIOError
from store.files import backup_files
from store.files.backup_files import BackupFiles, BackupPlace
from store.files.filesystem import Filesystem
from store.files.mapping import PAGE_SIZE
from store.files.readable import Stretch
from store.formats.backup_manifest import MANIFESTS, BackedFile
from tests.support.bad_sectors import BadSectors

ID = "20231114T221320.000"
TIME_MS = 1_700_000_000_007


class Held(BackupFiles):
    """A backup whose files hold these bytes."""

    def __init__(self, data: bytes) -> None:
        self.address, self.data = "b", data

    def _map(self, file: BackedFile, position: int, size: int) -> Stretch:
        return Stretch(memoryview(self.data[position : position + size]))

    def stored_size(self, path: str) -> int:
        return len(self.data)


@pytest.mark.parametrize(
    ("data", "pieces"),
    [
        (b"", []),
        (b"abc", [b"abc"]),
        (b"abcd", [b"abcd"]),
        (b"abcde", [b"abcd", b"e"]),
        (b"abcdefgh", [b"abcd", b"efgh"]),
    ],
)
def test_a_file_is_read_in_frames_up_to_its_size(
    data: bytes, pieces: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_files, "FRAME_BYTES", 4)
    file = BackedFile("p", len(data), "", "log/s", 1)
    assert [bytes(one) for one in Held(data + b"more").chunks(file)] == pieces


@pytest.mark.parametrize("size", [0, 3, 4, 6])
def test_a_file_that_ends_early_is_damaged(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_files, "FRAME_BYTES", 4)
    with pytest.raises(DamagedFile, match=f"^b/log/s: the file ends at {size} instead of 7$") as caught:
        list(Held(bytes(size)).chunks(BackedFile("p", 7, "", "log/s", 7)))
    assert str(caught.value.file) == "b/log/s"


def test_a_range_past_the_end_of_a_short_file_is_no_shorter_range() -> None:
    file = BackedFile("p", 7, "", "log/s", 7)
    assert bytes(Held(b"abcd").read(file, 2, 2).read()) == b"cd"
    for position in (3, 4, 6):
        with pytest.raises(DamagedFile, match="the file ends at 4 instead of 7") as caught:
            Held(b"abcd").read(file, position, 2)
        assert caught.value.code == "backup-damaged"


class Listed(BackupFiles):
    """Backups of these ids."""

    def __init__(self, *ids: str) -> None:
        self.address, self._found = "b", list(ids)

    def ids(self) -> list[str]:
        return self._found

    def _manifest(self, backup: str) -> Any:
        return f"manifest of {backup}"


def test_a_backup_is_the_named_one_or_the_newest() -> None:
    files = Listed("1", "2", "3")
    assert [files.find(one) for one in ("1", "3", None)] == [f"manifest of {one}" for one in "133"]
    with pytest.raises(BadRequest, match="no backup has the id '4'") as refused:
        files.find("4")
    assert refused.value.code == "unknown-backup"


class Damaged(Listed):
    """Backups of which the last one has a damaged manifest."""

    def _ids(self) -> list[str]:
        return self._found

    def _manifest(self, backup: str) -> Any:
        if backup == self._found[-1]:
            raise DamagedFile("damaged")
        return super()._manifest(backup)


def test_the_newest_backup_is_the_last_one_with_a_whole_manifest() -> None:
    assert Damaged("1", "2", "3").newest() == "manifest of 2"
    assert Damaged("1").newest() is None


class Packed(BackupFiles):
    """Packed files, whose frames are these."""

    def __init__(self) -> None:
        self.address = "b"

    def _reader(self, file: BackedFile) -> Any:
        return None

    def _frames(self, file: BackedFile) -> Any:
        return None


@pytest.mark.parametrize("frames", [[b"abc"], [b"a", b"bc"], [b"a", b"b", b"c"]])
def test_bytes_of_several_frames_are_joined(frames: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_files, "read_frames", lambda *asked: map(memoryview, frames))
    assert bytes(Packed().read(BackedFile("p", 3, "", "log/s.zst", 1), 0, 3).read()) == b"abc"


def test_a_manifest_with_a_bad_page_is_no_damaged_one(tmp_path: Path) -> None:
    folder = tmp_path / MANIFESTS
    folder.mkdir()
    (folder / f"{ID}.json").write_bytes(b"x" * 2 * PAGE_SIZE)
    assert BackupFiles(str(tmp_path), Filesystem()).newest() is None
    with pytest.raises(StoreIOError, match="cannot read this page") as caught:
        BackupFiles(str(tmp_path), BadSectors({f"{ID}.json": {0}})).newest()
    assert (caught.value.file, caught.value.offset) == (folder / f"{ID}.json", 0)


@pytest.mark.parametrize(
    ("ends", "is_log", "size"),
    [([99], True, 100), ([100], True, 100), ([101], True, 101), ([40, 60], True, 100), ([99], False, 99)],
)
def test_a_log_file_of_a_backup_has_the_size_of_a_segment(ends: list[int], is_log: bool, size: int) -> None:
    place = BackupPlace.__new__(BackupPlace)
    place._manifest = cast(Any, SimpleNamespace(segment_size=100))
    pieces = [SimpleNamespace(end=end, is_log=is_log) for end in ends]
    assert place._size(cast(Any, pieces)) == size


class Pieces(BackupFiles):
    """Files whose stored bytes are these."""

    def __init__(self, stored: dict[str, bytes]) -> None:
        self.address, self.stored = "b", stored

    def read(self, file: BackedFile, position: int, size: int) -> Stretch:
        return Stretch(memoryview(self.stored[file.stored][: file.size][position : max(position, position + size)]))


@pytest.fixture
def place() -> BackupPlace:
    """A segment in two pieces, a queue file, and a table."""
    made = BackupPlace.__new__(BackupPlace)
    made._files, made._address = Pieces({"1": b"abc", "2": b"de", "3": b"queue", "4": b"{}"}), "b"
    made._manifest = cast(Any, SimpleNamespace(segment_size=8))
    log, queue = "commitlog/0", "consumequeue/T/0/0"
    made._by_path = {
        queue: [BackedFile(queue, 5, "", "3", 5, mtime_ms=TIME_MS)],
        log: [BackedFile(log, 3, "", "1", 3, mtime_ms=8), BackedFile(log, 2, "", "2", 2, mtime_ms=9, position=3)],
        "config/x.json": [BackedFile("config/x.json", 2, "", "4", 2, mtime_ms=6)],
    }
    made._tree = made._make_tree()
    return made


def test_the_files_of_a_backup_are_listed_by_path_with_their_folders(place: BackupPlace) -> None:
    rows = {path: (one.size, one.mtime_ns, one.is_folder, one.is_file) for path, one in place.list_tree().items()}
    folder = (0, 0, True, False)
    assert rows == {
        "commitlog": folder,
        "commitlog/0": (8, 9_000_000, False, True),
        "config": folder,
        "config/x.json": (2, 6_000_000, False, True),
        "consumequeue": folder,
        "consumequeue/T": folder,
        "consumequeue/T/0": folder,
        "consumequeue/T/0/0": (5, TIME_MS * 1_000_000, False, True),
    }
    below = [(one.path, one.is_folder, one.size, one.mtime_ms) for one in place.list_below("consumequeue")]
    assert below == [
        ("consumequeue/T", True, 0, 0), ("consumequeue/T/0", True, 0, 0), ("consumequeue/T/0/0", False, 5, TIME_MS),
    ]  # fmt: skip
    assert [str(one.path) for one in place.list_folder("")] == ["commitlog", "config", "consumequeue"]
    assert (place.list_folders("consumequeue/T"), place.list_folders("config")) == (["0"], [])
    root = place.look_at("")
    assert root is not None
    assert (root.size, root.mtime_ns, root.is_folder, root.is_file, place.look_at("none")) == (*folder, None)


def test_a_backup_without_a_log_has_the_folder_of_the_log(place: BackupPlace) -> None:
    del place._by_path["commitlog/0"]
    place._tree = place._make_tree()
    assert [str(one.path) for one in place.list_folder("")] == ["commitlog", "config", "consumequeue"]
    assert place.list_folders("") == ["commitlog", "config", "consumequeue"]


@pytest.mark.parametrize(
    ("position", "size", "data"),
    [
        (0, None, b"abcde\0\0\0"),
        (0, 8, b"abcde\0\0\0"),
        (0, 9, b"abcde\0\0\0"),
        (0, 3, b"abc"),
        (0, 4, b"abcd"),
        (2, 2, b"cd"),
        (3, 2, b"de"),
        (3, 3, b"de\0"),
        (4, None, b"e\0\0\0"),
        (5, 2, b"\0\0"),
        (8, None, b""),
        (9, 1, b""),
        (2, 0, b""),
    ],
)
def test_a_segment_of_pieces_is_read_up_to_its_size(
    position: int, size: int | None, data: bytes, place: BackupPlace
) -> None:
    assert bytes(place.map("commitlog/0", position, size).read()) == data


def test_what_a_backup_s_segment_lacks_is_a_hole(place: BackupPlace) -> None:
    assert [bytes(place.written("commitlog/0", size).read()) for size in (4, 5, 8)] == [b"abcd", b"abcde", b"abcde"]
    assert [list(place.written_ranges("commitlog/0", at)) for at in (0, 4, 5, 6)] == [[(0, 5)], [(4, 5)], [], []]
    with pytest.raises(StoreIOError, match="the backup has no such file") as refused:
        place.map("commitlog/1", 0, None)
    assert str(refused.value.file) == "b/commitlog/1"


@pytest.mark.parametrize(
    ("position", "size", "found"),
    [(0, None, b"abcd"), (3, None, b"d"), (4, None, b""), (5, None, b""), (9, 2, b""), (2, 1, b"c"), (2, 9, b"cd")],
)
def test_a_range_of_a_backed_file_ends_with_the_file(position: int, size: int | None, found: bytes) -> None:
    place = BackupPlace.__new__(BackupPlace)
    place._manifest = cast(Any, SimpleNamespace(segment_size=0))
    place._files = Held(b"abcd")
    place._by_path = {"p": [BackedFile("p", 4, "", "log/s", 4)]}
    assert bytes(place.map("p", position, size).read()) == found
