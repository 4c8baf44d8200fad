"""One action at a time: what the manifest has of it, and how it is done and taken back."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store.change import actions
from store.change.actions import Patch, Publish, Remove, Workplace
from store.errors import DamagedFile, ForeignFile, StoreIOError
from store.files.filesystem import Filesystem

MTIME = 1_700_000_000_000_000_000


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    (tmp_path / "store").mkdir()
    (tmp_path / "q").mkdir()
    return Workplace(tmp_path / "store", tmp_path / "q", Filesystem())


def write(path: Path, data: bytes, mtime_ns: int = MTIME) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, ns=(mtime_ns, mtime_ns))
    return path


def looked(data: bytes, *, hashed: bool = True) -> dict[str, Any]:
    digest = {"sha256": hashlib.sha256(data).hexdigest()} if hashed else {}
    return {"size": len(data), "mtime_ns": MTIME, **digest}


@pytest.mark.parametrize(("size", "is_hashed"), [(0, True), (9, True), (10, True), (11, False)])
def test_a_removed_file_is_described_with_its_digest_up_to_a_size(
    size: int, is_hashed: bool, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "HASH_SIZE_LIMIT", 10)
    path = write(place.root / "a/file", bytes(size))
    assert place.describe(7, Remove(path, "old")) == {
        "kind": "remove", "path": "a/file", "reason": "old", "kept_as": "files/000007-file",
        "original": looked(bytes(size), hashed=is_hashed),
    }  # fmt: skip


@pytest.mark.parametrize(("folders", "new"), [(["a/b/c"], 0), (["a"], 2), ([], 3)])
def test_a_published_file_is_described_with_the_folders_that_it_needs(
    folders: list[str], new: int, place: Workplace, tmp_path: Path
) -> None:
    for folder in folders:
        (place.root / folder).mkdir(parents=True)
    staged = write(tmp_path / "staged", b"data")
    assert place.describe(0, Publish(place.root / "a/b/c/file", staged, "new")) == {
        "kind": "write", "path": "a/b/c/file", "reason": "new", "kept_as": "files/000000-file", "original": None,
        "published": looked(b"data", hashed=False), "new_folders": new,
    }  # fmt: skip


def test_a_patch_is_described_with_the_bytes_before_and_after_and_taken_back_once(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []
    monkeypatch.setattr(Filesystem, "fdatasync", lambda fs, file: synced.append(path.read_bytes()))
    path = write(place.root / "file", b"0123456789")
    patch = Patch(path, 3, b"abc", "wrong")
    entry = place.describe(0, patch)
    assert entry == {
        "kind": "patch", "path": "file", "reason": "wrong", "original": looked(b"0123456789"), "position": 3,
        "before": b"345".hex(), "after": b"abc".hex(),
    }  # fmt: skip
    place.perform(patch, entry)
    assert path.read_bytes() == b"012abc6789"
    assert [place.take_back(entry), place.take_back(entry)] == [1, 0]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (b"0123456789", MTIME)
    assert synced == [b"012abc6789", b"0123456789"]


@pytest.mark.parametrize(
    ("found", "is_cut_short", "is_overwritten"),
    [
        (b"abc", False, False),
        (b"345", False, False),
        (b"ab5", False, True),
        (b"ab5", True, False),
        (b"3bc", True, False),
        (b"xbc", True, True),
        (b"abx", True, True),
        (b"ab", True, True),
        (b"ab", False, True),
    ],
)
def test_a_patch_that_a_power_cut_tore_has_bytes_of_before_and_after(
    found: bytes, is_cut_short: bool, is_overwritten: bool, place: Workplace
) -> None:
    write(place.root / "file", b"012" + found)
    entry = {"kind": "patch", "path": "file", "position": 3, "before": b"345".hex(), "after": b"abc".hex()}
    assert place.is_overwritten(entry, is_cut_short=is_cut_short) is is_overwritten
    assert not place.is_overwritten({"kind": "remove"}, is_cut_short=is_cut_short)


def test_a_patch_of_a_file_that_is_gone_is_neither_overwritten_nor_taken_back(place: Workplace) -> None:
    entry = {"kind": "patch", "path": "file", "position": 3, "before": b"345".hex(), "after": b"abc".hex()}
    assert not place.is_overwritten(entry, is_cut_short=False)
    assert place.take_back(entry) == 0


def test_a_removed_file_comes_back_once_and_a_later_one_is_set_aside(place: Workplace) -> None:
    path = write(place.root / "a/file", b"old")
    entry = place.describe(0, Remove(path, "r"))
    (place.quarantine / "files").mkdir()
    place.perform(Remove(path, "r"), entry)
    assert not path.exists()
    kept = place.quarantine / "files/000000-file"
    path.parent.rmdir()
    for later in (None, b"later", b"later still"):
        write(kept, b"old")
        if later is not None:
            write(path, later)
        assert place.take_back(entry) == 1
        assert (path.read_bytes(), path.stat().st_mtime_ns, kept.exists()) == (b"old", MTIME, False)
    aside = place.quarantine / "later/000000-file"
    assert (aside.read_bytes(), aside.with_name("000000-file+").read_bytes()) == (b"later", b"later still")
    assert place.take_back(entry) == 0


@pytest.mark.parametrize("link", ["store/a", "q/files"])
def test_no_action_goes_through_a_link(link: str, place: Workplace, tmp_path: Path) -> None:
    path = write(place.root / "a/file", b"old")
    entry = place.describe(0, Remove(path, "r"))
    (place.quarantine / "files").mkdir()
    place.perform(Remove(path, "r"), entry)
    (tmp_path / link).rename(tmp_path / "elsewhere")
    (tmp_path / link).symlink_to(tmp_path / "elsewhere")
    acts: list[Callable[[], object]] = [lambda: place.take_back(entry)]
    if link == "q/files":
        acts.append(lambda: place.require_kept_sound(entry))
    else:
        acts.append(lambda: place.describe(0, Remove(path, "r")))
    for act in acts:
        with pytest.raises(ForeignFile, match="a link among the folders of the store"):
            act()


def test_a_folder_in_the_place_of_a_kept_file_is_refused(place: Workplace) -> None:
    (place.quarantine / "files/000000-file").mkdir(parents=True)
    entry = {"kind": "remove", "path": "file", "kept_as": "files/000000-file", "original": looked(b"old", hashed=False)}
    with pytest.raises(ForeignFile):
        place.require_kept_sound(entry)


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_published_file_goes_with_its_new_folders(is_changed: bool, place: Workplace, tmp_path: Path) -> None:
    (place.root / "a").mkdir()
    publish = Publish(place.root / "a/b/c/file", write(tmp_path / "staged", b"new"), "r")
    entry = place.describe(0, publish)
    place.perform(publish, entry)
    assert publish.path.read_bytes() == b"new"
    if is_changed:
        write(publish.path, b"newer", MTIME + 1)
    assert place.take_back(entry) == 1
    assert sorted(path.name for path in place.root.rglob("*")) == ["a"]
    aside = place.quarantine / "later/000000-file"
    assert aside.exists() == is_changed
    assert not is_changed or aside.read_bytes() == b"newer"


def test_folders_that_others_use_stay(place: Workplace, tmp_path: Path) -> None:
    publish = Publish(place.root / "a/b/file", write(tmp_path / "staged", b"new"), "r")
    entry = place.describe(0, publish)
    place.perform(publish, entry)
    write(place.root / "a/other", b"x")
    assert place.take_back(entry) == 1
    assert sorted(path.name for path in place.root.rglob("*")) == ["a", "other"]


@pytest.mark.parametrize(
    ("kept", "hashed", "is_sound"),
    [
        (b"old", True, True), (b"old", False, True), (b"new", True, False), (b"new", False, True),
        (b"older", False, False), (None, True, True),
    ],
)  # fmt: skip
def test_a_kept_file_is_the_one_that_was_removed(
    kept: bytes | None, hashed: bool, is_sound: bool, place: Workplace
) -> None:
    entry = {
        "kind": "remove",
        "path": "file",
        "kept_as": "files/000000-file",
        "original": looked(b"old", hashed=hashed),
    }
    if kept is not None:
        write(place.quarantine / "files/000000-file", kept)
    if is_sound:
        place.require_kept_sound(entry)
    else:
        with pytest.raises(DamagedFile, match="the kept file differs from the one that was removed"):
            place.require_kept_sound(entry)
    place.require_kept_sound({**entry, "original": None})
    place.require_kept_sound({**entry, "kind": "patch"})


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EACCES])
def test_a_file_is_copied_to_another_file_system_and_kept_after_other_errors(
    number: int, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Filesystem.rename

    def fail(fs: Filesystem, source: Path, target: Path) -> None:
        if source.suffix == ".part":
            rename(fs, source, target)
        else:
            raise StoreIOError("no", errno=number)

    synced: list[str] = []
    monkeypatch.setattr(Filesystem, "fsync", lambda fs, file: synced.append(file.path.name))
    monkeypatch.setattr(Filesystem, "fsync_folder", lambda fs, folder: synced.append(folder.name))
    monkeypatch.setattr(Filesystem, "rename", fail)
    path = write(place.root / "file", b"old")
    entry = place.describe(0, Remove(path, "r"))
    (place.quarantine / "files").mkdir()
    write(place.quarantine / "files/000000-file.part", b"of a run before")
    kept = place.quarantine / "files/000000-file"
    if number == errno.EXDEV:
        place.perform(Remove(path, "r"), entry)
        assert (kept.read_bytes(), kept.stat().st_mtime_ns, path.exists()) == (b"old", MTIME, False)
        assert [one.name for one in kept.parent.iterdir()] == ["000000-file"]
        assert synced == ["000000-file.part", "files"]
    else:
        with pytest.raises(StoreIOError):
            place.perform(Remove(path, "r"), entry)
        assert (path.read_bytes(), kept.exists()) == (b"old", False)
