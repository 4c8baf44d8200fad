"""The message database in info and in a dump, and the settings that it tells."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.entry import Asked
from store.structures.messagedb.infer import infer_settings
from store.structures.messagedb.keys import INDEX
from store.structures.messagedb.rows import folder_in, is_folder, rows
from store.structures.messagedb.show import describe
from store.structures.registry import Present
from tests.support.five_stores import change_database, fivefive
from tests.support.golden import copy_store

pytest.importorskip("rocksdict")


def copy_of(name: str, tmp_path: Path) -> Path:
    return copy_store(fivefive(name) / "store", tmp_path / "store")


@pytest.mark.parametrize(
    ("name", "is_lost", "detail"),
    [
        ("index", False, "index, timers and half messages (5.4 and later)"),
        ("index", True, "not there: its topics are, and a broker of 5.4 or later creates it"),
    ],
)
def test_info_says_whether_it_may_hold_entries(name: str, is_lost: bool, detail: str, tmp_path: Path) -> None:
    root = copy_of(name, tmp_path)
    if is_lost:
        shutil.rmtree(root / "rocksdbstore")
    (present,) = describe(StoreLayout(root), Filesystem())
    assert present == Present("RocksDB with index, timers and half messages", "rocksdbstore", detail)


def test_it_is_a_folder_of_its_name_with_a_database_in_it(tmp_path: Path) -> None:
    root, fs = copy_of("index", tmp_path), Filesystem()
    folder = root / "rocksdbstore"
    assert (folder_in(StoreLayout(root), fs), is_folder(folder, fs), is_folder(root, fs)) == (folder, True, False)
    (folder / "CURRENT").unlink()
    assert is_folder(folder, fs) is False
    shutil.rmtree(folder)
    assert folder_in(StoreLayout(root), fs) is None


@pytest.mark.parametrize(
    ("name", "first", "topic", "counts"),
    [
        ("index", 0, None, {"key": 73, "long": 2}),
        ("index", 5073, None, {"key": 3, "long": 2}),
        ("index", 5074, None, {"long": 2}),
        ("index", 5073, "TopicA", {"long": 2}),
        ("trans", 0, None, {"half": 5, "long": 1}),
        ("trans", 1510, "TopicB", {"half": 3, "long": 1}),
        ("trans", 1511, "TopicB", {"half": 2, "long": 1}),
        ("timer", 0, None, {"timer": 10, "long": 2}),
        ("timer", 5343, None, {"timer": 2, "long": 2}),
        ("timer", 5344, None, {"timer": 1, "long": 2}),
    ],
)
def test_a_dump_has_the_entries_from_a_log_offset_on(
    name: str, first: int, topic: str | None, counts: dict[str, int]
) -> None:
    found = [*rows(fivefive(name) / "store" / "rocksdbstore", Asked(first=first, topic=topic))]
    assert {kind: sum(one.kind == kind for one in found) for kind in dict.fromkeys(one.kind for one in found)} == counts
    for one in found:
        place = one.extra.get("log_offset", 0)
        assert (one.path, one.number, one.start, one.is_fault) == ("rocksdbstore", place, 0, False)


def test_a_dump_says_what_is_malformed(tmp_path: Path) -> None:
    root = copy_of("plain", tmp_path)
    change_database(root, {INDEX: {b"torn": b"1"}})
    (one, *_) = rows(root / "rocksdbstore", Asked())
    assert (one.kind, one.path, one.number, one.start, one.is_fault) == ("damage", "rocksdbstore", 0, 0, True)
    assert one.extra == {"detail": "malformed: key 746f726e"}


@pytest.mark.parametrize(
    ("name", "told"),
    [("index-only", {"indexFileWriteEnable": False}), ("index", {}), ("trans", {})],
)
def test_index_files_are_off_where_there_are_none_and_the_database_has_an_index(
    name: str, told: dict[str, object]
) -> None:
    assert infer_settings(StoreLayout(fivefive(name) / "store"), Filesystem()) == told
