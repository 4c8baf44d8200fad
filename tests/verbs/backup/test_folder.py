"""A folder of backups holds each content once, durably, and knows what a killed backup had finished."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.formats.backup_manifest import BackedFile
from store.formats.zstd_frames import CACHED_BYTES, FRAME_BYTES
from store.verbs.backup.folder import BackupFolder
from store.verbs.backup.prune import plan_prune
from tests.cli.running import rmqctl
from tests.support.stores import make_store
from tests.support.watched_disk import WatchedDisk, disk_over
from tests.verbs.backup.backups import back_up, put_more
from tests.verbs.rebuild.stores import expired_store

UNFINISHED = ("unfinished", "lock", ".rmqctl")
LOG = f"commitlog/{16384:020d}"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[WatchedDisk]:
    (tmp_path / "disk").mkdir()
    disk = disk_over(tmp_path / "disk")
    yield disk
    disk.close()


def unsynced(disk: WatchedDisk, below: str) -> list[str]:
    return [name for name in disk.unsynced() if not name.removeprefix(f"{below}/").startswith(UNFINISHED)]


def folder_at(root: Path, *, compresses: bool = False) -> BackupFolder:
    return BackupFolder(root, Filesystem(), compresses=compresses)


def test_a_file_is_named_by_its_place_and_digest(tmp_path: Path) -> None:
    folder, digest = folder_at(tmp_path), hashlib.sha256(b"abc").hexdigest()
    assert folder.add(LOG, lambda: [memoryview(b"ab"), memoryview(b"c")], 5) == BackedFile(
        LOG, 3, digest, f"log/{16384:020d}.{digest[:16]}", 3, 5, is_sealed=False
    )
    assert folder.add("config/topics.json", lambda: [memoryview(b"abc")]) == BackedFile(
        "config/topics.json", 3, digest, f"tables/config/topics.json.{digest[:16]}", 3, 0, is_sealed=False
    )
    assert folder.stored_files() == {
        f"log/{16384:020d}.{digest[:16]}": 3,
        f"tables/config/topics.json.{digest[:16]}": 3,
    }


@pytest.mark.parametrize("compresses", [False, True])
@pytest.mark.parametrize("size", [0, 1, CACHED_BYTES, CACHED_BYTES + 1, FRAME_BYTES, FRAME_BYTES + 1])
def test_any_number_of_bytes_comes_back(size: int, compresses: bool, tmp_path: Path) -> None:
    data = (b"%d " % size * size)[:size]
    folder = folder_at(tmp_path, compresses=compresses)
    file = folder.add(LOG, lambda: [memoryview(data)] if size else [])
    assert (file.size, file.sha256) == (size, hashlib.sha256(data).hexdigest())
    assert file.stored_size == (tmp_path / file.stored).stat().st_size
    assert file.stored.endswith(".zst") is compresses
    assert b"".join(folder.chunks(file)) == data


def test_files_that_a_killed_backup_had_finished_are_noted_in_order(tmp_path: Path) -> None:
    with folder_at(tmp_path).writing(makes=True):
        files = [
            folder_at(tmp_path).add(path, lambda: [memoryview(b"abc")], 7) for path in (LOG, f"commitlog/{0:020d}")
        ]
        for file in files:
            folder_at(tmp_path).note(file)
    with folder_at(tmp_path).writing():
        assert folder_at(tmp_path).noted() == files
        assert not (tmp_path / "unfinished").exists()


@pytest.mark.parametrize(
    ("names", "is_refused"),
    [
        ((), False),
        (("file",), True),
        (("log", "file"), True),
        (("log", "tables", "unfinished", "unfinished.jsonl", "lock"), False),
        (("backups", "file"), False),
    ],
)
def test_a_folder_with_other_files_is_one_of_backups_where_it_has_manifests(
    names: tuple[str, ...], is_refused: bool, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).touch() if name in ("file", "lock", "unfinished.jsonl") else (tmp_path / name).mkdir()
    folder = folder_at(tmp_path)
    if is_refused:
        with pytest.raises(BadRequest, match="the folder has other files, and no backups"), folder.writing(makes=True):
            pass
    else:
        with folder.writing(makes=True):
            assert {"log", "tables", "backups", "lock"} <= {path.name for path in tmp_path.iterdir()}


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = folder_at(tmp_path / "file")
    with pytest.raises(BadRequest, match="not a folder") as refused, folder.writing(makes=True):
        pass
    assert refused.value.hint == "name a folder that does not exist yet"


def test_a_finished_backup_leaves_no_unfinished_files(tmp_path: Path) -> None:
    back_up(make_store(tmp_path / "store", 3), tmp_path / "backups")
    assert {path.name for path in (tmp_path / "backups").iterdir()} == {"backups", "lock", "log", "tables"}


def test_a_backup_is_durable_before_its_manifest_has_its_name(disk: WatchedDisk, tmp_path: Path) -> None:
    folder, before_the_manifest = tmp_path / "disk/a/backups", []

    def look(disk: WatchedDisk, name: str, argument: Any) -> None:
        if name == "rename" and argument.suffix == ".json" and argument.name.startswith("20"):
            before_the_manifest.append(unsynced(disk, "a/backups"))

    disk.look = look
    back_up(expired_store(tmp_path / "store"), folder, target_fs=disk)
    assert len(list((folder / "log").iterdir())) == 2
    assert (before_the_manifest, unsynced(disk, "a/backups")) == ([[]], [])


def test_manifests_are_gone_before_the_files_they_need(disk: WatchedDisk, tmp_path: Path) -> None:
    root, folder = make_store(tmp_path / "other", 100), tmp_path / "disk/backups"
    back_up(root, folder, target_fs=disk)
    put_more(root, 100)
    back_up(root, folder, target_fs=disk)
    before_the_files = []

    def look(disk: WatchedDisk, name: str, argument: Any) -> None:
        if name == "unlink" and argument.parent.name == "log":
            before_the_files.append([one for one in disk.unsynced() if "/backups/" in one])

    disk.look = look
    target = BackupFolder(folder, disk)
    plan_prune(target, 0, keep_last=1, keep_days=None).apply(target)
    assert before_the_files == [[]]


@pytest.mark.parametrize("words", [
    ("backup", "create", "{file}"), ("salvage", "--to", "{file}"),
    ("backup", "restore", "{backups}", "--to", "{file}"),
])  # fmt: skip
@pytest.mark.parametrize("make", [Path.touch, os.mkfifo])
def test_a_target_that_is_no_folder_is_refused_with_what_to_name(
    words: tuple[str, ...], make: Callable[[Path], None], tmp_path: Path
) -> None:
    root, file = make_store(tmp_path / "store", 3), tmp_path / "file"
    back_up(root, tmp_path / "backups")
    make(file)
    run = rmqctl(*(word.format(file=file, backups=tmp_path / "backups") for word in words), store=root)
    told = f"rmqctl: {file}: not a folder; name a folder that does not exist yet\n"
    if make is Path.touch and words[1] == "restore":
        told = f"rmqctl: Invalid value for '--to': {file} is a file; name a folder (see rmqctl backup restore --help)\n"
    assert (run.code, run.err) == (2, told)
