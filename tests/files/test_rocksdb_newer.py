"""A RocksDB of a newer broker: the store is read and checked, and no command changes it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store import check, plan_cleaning, plan_rebuild, plan_recovery, plan_truncation, staged_store
from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.files.rocksdb_copy import edit_copy, own_version
from store.files.rocksdb_newer import newer_traits
from store.layout import StoreLayout
from store.opened.detect import newer_structures
from store.structures import plan_message_database
from store.structures.messagedb.keys import FAMILIES, INDEX, TIMER, TRANS, encode_long
from store.structures.queuedb.keys import OFFSETS, UNITS
from store.verbs.info import look_at_store
from tests.support.five_stores import change_database, fivefive
from tests.support.golden import copy_store
from tests.support.snapshots import contents

pytest.importorskip("rocksdict")
FS = Filesystem()
KEY = encode_long(1795380323000)


def copy_of(name: str, tmp_path: Path) -> Path:
    return copy_store(fivefive(name) / "store", tmp_path / "store")


def add_family(folder: Path) -> None:
    """Add a column family to a RocksDB."""
    edited = folder.parent.parent / "edited"
    edit_copy(folder, edited, FS, "entries", {"pop": {b"k": b"v"}})
    whole = shutil.copytree(edited, folder.parent.parent / "whole")
    shutil.rmtree(folder)
    shutil.move(whole, folder)


def set_version(folder: Path, version: str) -> None:
    """Let the newest OPTIONS have another version of RocksDB."""
    options = max(folder.glob("OPTIONS-*"))
    options.write_bytes(options.read_bytes().replace(b"rocksdb_version=8.3.2", f"rocksdb_version={version}".encode()))


def family_in(folder: str) -> Callable[[Path], None]:
    return lambda root: add_family(root / folder)


def version_in(folder: str) -> Callable[[Path], None]:
    return lambda root: set_version(root / folder, "99.9.9")


def values_of(family: str, size: int) -> Callable[[Path], None]:
    return lambda root: change_database(root, {family: {KEY + b"U": bytes(size)}})


READER = ".".join(own_version().split(b"rocksdb_version=")[1].split()[0].decode().split("."))
VERSION = f"files of RocksDB 99.9.9, which {READER} does not read for sure"
CASES: list[tuple[str, str, Callable[[Path], None], str]] = [
    ("index", "rocksdbstore", family_in("rocksdbstore"), "a column family 'pop'"),
    ("plain", "rocksdbstore", family_in("rocksdbstore"), "a column family 'pop'"),
    ("index", "rocksdbstore", values_of(INDEX, 9), "values of 9 bytes in the column family 'default'"),
    ("timer", "rocksdbstore", values_of(TIMER, 13), "values of 13 bytes in the column family 'timer'"),
    ("trans", "rocksdbstore", values_of(TRANS, 12), "values of 12 bytes in the column family 'trans'"),
    ("index", "rocksdbstore", version_in("rocksdbstore"), VERSION),
    ("combine", "consumequeue", family_in("consumequeue"), "a column family 'pop'"),
    ("rocksdbcq-separate", "consumequeue_rocksdb", family_in("consumequeue_rocksdb"), "a column family 'pop'"),
    ("rocksdbcq-separate", "consumequeue_rocksdb", version_in("consumequeue_rocksdb"), VERSION),
]
IDS = [f"{name}: {told}" for name, _, _, told in CASES]


def plan_new_database(root: Path) -> Any:
    with staged_store(root) as opened:
        return plan_message_database(opened)


CHANGES: list[Callable[[Path], Any]] = [
    plan_recovery,
    lambda root: plan_truncation(root, 4741),
    plan_rebuild,
    plan_cleaning,
    plan_new_database,
]


@pytest.mark.parametrize(("name", "folder", "make", "told"), CASES, ids=IDS)
def test_no_command_changes_the_store_and_check_and_info_say_so(
    name: str, folder: str, make: Callable[[Path], None], told: str, tmp_path: Path
) -> None:
    root = copy_of(name, tmp_path)
    make(root)
    layout, before = StoreLayout(root), contents(root)
    assert list(newer_structures(layout, FS)) == [(root / folder, told)]
    for change in CHANGES:
        with pytest.raises(UnsupportedFormat, match="the store is read, checked and salvaged, and not changed"):
            change(root)
    assert [(one.kind, one.detail) for one in check(root) if one.kind == "newer"] == [("newer", told)]
    assert look_at_store(layout, {}, FS).newer_files == [folder]
    assert contents(root) == before


@pytest.mark.parametrize("version", ["8.3.2", "8.3.1", "7.99.99", READER])
def test_a_version_that_is_read_is_not_newer(version: str, tmp_path: Path) -> None:
    root = copy_of("index", tmp_path)
    set_version(root / "rocksdbstore", version)
    assert list(newer_traits(root / "rocksdbstore", FS, FAMILIES)) == []


def test_a_key_that_looks_like_a_column_family_is_none(tmp_path: Path) -> None:
    root = copy_of("index", tmp_path)
    # MANIFEST has the last key of each table.
    change_database(root, {INDEX: {b"z\xc9\x01\x03pop": bytes(8)}})
    assert list(newer_traits(root / "rocksdbstore", FS, FAMILIES)) == []


def test_a_damaged_database_is_not_newer(tmp_path: Path) -> None:
    folder = tmp_path / "database"
    folder.mkdir()
    for current in ("MANIFEST-000001\n", "MANIFEST-000002\n", "../../etc/passwd\n", ""):
        (folder / "CURRENT").write_text(current)
        (folder / "MANIFEST-000001").write_bytes(b"\xc9\x01\x03pop")
        assert list(newer_traits(folder, FS, (UNITS, OFFSETS))) == []


@pytest.mark.parametrize("name", ["CURRENT", "OPTIONS-000001"])
def test_a_topic_s_folder_with_the_name_of_a_file_is_none(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    assert list(newer_traits(tmp_path, FS, FAMILIES)) == []


def test_without_the_package_the_small_files_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy_of("index", tmp_path)
    add_family(root / "rocksdbstore")
    set_version(root / "rocksdbstore", "99.9.9")
    monkeypatch.setitem(__import__("sys").modules, "rocksdict", None)
    own_version.cache_clear()
    assert list(newer_traits(root / "rocksdbstore", FS, FAMILIES)) == ["a column family 'pop'"]
