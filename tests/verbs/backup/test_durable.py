"""A finished backup, a prune and a restored store are durable; what must be first on the device is there first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store.opened.checkpoint import StoreCheckpoint
from store.structures.epochs.files import Epoch, EpochFile, encode_epochs
from store.verbs.backup.folder import BackupFolder
from store.verbs.backup.prune import plan_prune
from tests.support.stores import make_store
from tests.verbs.backup.backups import back_up, restore
from tests.verbs.backup.test_create import put_more
from tests.verbs.rebuild.stores import expired_store
from tests.verbs.recover.test_durable import WatchedDisk, disk_over

UNFINISHED = ("unfinished", "lock", ".rmqctl")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[WatchedDisk]:
    (tmp_path / "disk").mkdir()
    disk = disk_over(tmp_path / "disk")
    yield disk
    disk.close()


def unsynced(disk: WatchedDisk, below: str) -> list[str]:
    return [name for name in disk.unsynced() if not name.removeprefix(f"{below}/").startswith(UNFINISHED)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store whose first queue has expired, with tables and epochs."""
    root = expired_store(tmp_path / "store")
    (root / "config").mkdir()
    (root / "compaction/T/0").mkdir(parents=True)
    (root / "compaction/T/0/segment").write_text("kept")
    (root / "config/consumerOffset.json").write_text('{"offsetTable":{"T@readers":{0:30}}}')
    for name in ("epochFileCheckpoint", "epochFileCheckpoint.bak"):
        (root / name).write_bytes(encode_epochs([Epoch(1, 0), Epoch(2, 20_000), Epoch(3, 30_000)]))
    return root


def test_a_backup_is_durable_before_its_manifest_has_its_name(store: Path, disk: WatchedDisk, tmp_path: Path) -> None:
    folder, before_the_manifest = tmp_path / "disk/a/backups", []

    def look(disk: WatchedDisk, name: str, argument: Any) -> None:
        if name == "rename" and argument.suffix == ".json" and argument.name.startswith("20"):
            before_the_manifest.append(unsynced(disk, "a/backups"))

    disk.look = look
    back_up(store, folder, target_fs=disk)
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


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_restored_store_is_durable(is_damaged: bool, store: Path, disk: WatchedDisk, tmp_path: Path) -> None:
    if is_damaged:
        with (store / "commitlog/00000000000000032768").open("r+b") as file:
            file.seek(300)
            file.write(b"\xff")
    back_up(store, tmp_path / "backups")
    root, before_the_log = tmp_path / "disk/a/new", list[list[str]]()

    def look(disk: WatchedDisk, name: str, argument: Any) -> None:
        if name == "rename" and argument.name == "commitlog":
            before_the_log.append([one for one in disk.unsynced() if ".rmqctl" not in one])

    disk.look = look
    restore(tmp_path / "backups", root, fs=disk, **({} if is_damaged else {"log_offset": 29_906}))
    assert StoreCheckpoint.load(root / "checkpoint", disk).physic_ms > 0
    assert (root / "consumequeue/Old/0").exists()
    assert [one.epoch for one in EpochFile(root, disk).entries] == [1, 2, 3] if is_damaged else [1, 2]
    assert (before_the_log, disk.unsynced()) == ([[]], [])
