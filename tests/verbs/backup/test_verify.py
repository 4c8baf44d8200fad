"""Damage of backups is found, named, and never restored."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from store.errors import DamagedFile, NotAStore, StoreError
from store.files.backup_files import BackupFiles
from store.verbs.backup.verify import BackupFault, bytes_to_verify, verify_files
from tests.support.stores import make_store
from tests.verbs.backup.backups import back_up, faults_in, restore


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    store = make_store(root / "store", 200)
    back_up(store, root / "backups")
    back_up(store, root / "compressed", compresses=True)
    return root


def flip(path: Path, position: int = 300) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


OTHER = "its bytes have another SHA-256 than when they were written"
DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "a flipped bit": ("backups", flip, OTHER),
    "a missing file": ("backups", Path.unlink, "it is missing"),
    "a byte cut off": ("backups", cut, "the file ends at 16383 instead of 16384"),
    "a flipped bit in a frame": ("compressed", lambda path: flip(path, 3), "frame 0 is damaged: "),
    "a table of frames cut off": ("compressed", cut, "no table of frames at its end"),
    "nothing left": ("compressed", lambda path: path.write_bytes(b""), "too short for a table of frames"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_named_and_not_restored(name: str, sound: Path, tmp_path: Path) -> None:
    kind, damage, fault = DAMAGE[name]
    folder = shutil.copytree(sound / kind, tmp_path / "backups")
    damage(next((folder / "log").glob(f"{0:020d}.*")))
    (found,) = (text for _, text in faults_in(folder))
    assert found == fault or (fault.endswith(": ") and found.startswith(fault))
    with pytest.raises(StoreError):
        restore(folder, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


MANIFESTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed number": (lambda path: edit(path, '"log_end": ', '"log_end": 1'), "its digest is wrong"),
    "another format": (
        lambda path: edit(path, "rmqctl.backup/1", "rmqctl.backup/9"),
        "its format is 'rmqctl.backup/9'",
    ),
    "half of it": (lambda path: path.write_bytes(path.read_bytes()[:200]), "no manifest of a backup"),
    "nothing": (lambda path: path.write_bytes(b""), "no manifest of a backup"),
    "a list": (lambda path: path.write_text("[]"), "its format is None"),
    "no text": (lambda path: path.write_bytes(b"\xff\xfe"), "no manifest of a backup"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_damaged_manifest_is_no_backup(name: str, sound: Path, tmp_path: Path) -> None:
    damage, reason = MANIFESTS[name]
    folder = shutil.copytree(sound / "backups", tmp_path / "backups")
    damage(next((folder / "backups").iterdir()))
    with pytest.raises(DamagedFile, match=reason):
        BackupFiles(str(folder)).find(None)
    warnings: list[StoreError] = []
    assert (BackupFiles(str(folder)).manifests(warnings), len(warnings)) == ([], 1)


def test_folders_without_backups_are_named(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "absent", "no such folder"), (tmp_path, "no backup is in it")):
        with pytest.raises(NotAStore, match=reason):
            BackupFiles(str(path)).find(None)


def test_a_file_that_backups_share_is_read_once_and_named_for_each(sound: Path, tmp_path: Path) -> None:
    folder, counted = shutil.copytree(sound / "backups", tmp_path / "backups"), list[int]()
    back_up(sound / "store", folder)
    files = BackupFiles(str(folder))
    first, second = files.manifests()
    flip(folder / first.segments[0].stored)
    found = list(verify_files(files, [first, second], counted.append))
    assert found == [BackupFault(one.id, first.segments[0].stored, OTHER) for one in (first, second)]
    sizes = [one.size for one in first.files]
    assert counted == [sum(sizes[: number + 1]) for number in range(len(sizes))]
    assert bytes_to_verify([first, second]) == sum(sizes)
