"""Listings are held while a folder is as it was, and no longer."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from store.errors import BadRequest
from store.files import file_tree
from store.files.filesystem import Filesystem

AN_HOUR = 3600


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each folder's names were read, by its name."""
    counted: Counter[str] = Counter()
    read = file_tree._read_names

    def count(folder: str) -> list[file_tree.Name]:
        counted[Path(folder).name] += 1
        return read(folder)

    monkeypatch.setattr(file_tree, "_read_names", count)
    # Those of the process may be full by other tests.
    monkeypatch.setattr(file_tree.FileTree, "_listings", file_tree.Listings())
    return counted


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one file, and nobody has changed its names for an hour."""
    made = tmp_path / "queues"
    made.mkdir()
    (made / "a").write_bytes(b"1")
    os.utime(made, times=(time.time() - AN_HOUR,) * 2)
    return made


def names(folder: Path) -> list[str]:
    return [entry.path.name for entry in Filesystem().list_folder(folder)]


def test_all_kinds_of_listings_read_an_unchanged_folder_once(folder: Path, reads: Counter[str]) -> None:
    fs = Filesystem()
    assert names(folder) == fs.list_names(folder) == ["a"]
    assert fs.list_folders(folder) == []
    assert fs.only_file(str(folder), "a") == 1
    assert [entry.path for entry in fs.list_below(str(folder.parent), "queues")] == ["queues/a"]
    assert reads == {"queues": 1}


def test_a_name_that_another_process_makes_or_deletes_is_seen_at_once(folder: Path) -> None:
    assert names(folder) == ["a"]
    (folder / "b").touch()
    assert names(folder) == ["a", "b"]
    (folder / "a").unlink()
    assert names(folder) == ["b"]


def test_a_folder_that_changed_just_now_is_read_each_time_as_its_clock_may_stand_still(
    folder: Path, reads: Counter[str]
) -> None:
    os.utime(folder)
    names(folder)
    names(folder)
    assert reads["queues"] == 2


def test_a_folder_whose_time_is_set_back_is_read_again(folder: Path) -> None:
    before = folder.stat().st_mtime_ns
    assert names(folder) == ["a"]
    (folder / "b").touch()
    os.utime(folder, ns=(before, before))
    assert names(folder) == ["a", "b"]


def test_sizes_and_times_of_files_are_never_held(folder: Path) -> None:
    (before,) = Filesystem().list_folder(folder)
    (folder / "a").write_bytes(b"longer")
    (after,) = Filesystem().list_folder(folder)
    assert (before.size, after.size) == (1, 6)
    assert before.mtime_ns < after.mtime_ns


def test_a_file_deleted_while_its_folder_is_listed_is_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert names(folder) == ["a"]
    version = file_tree._version_of(str(folder))
    monkeypatch.setattr(file_tree, "_version_of", lambda _: version)
    (folder / "a").unlink()
    assert names(folder) == []


def test_own_changes_are_seen_on_a_mount_that_keeps_no_times_of_folders(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = file_tree._version_of(str(folder))
    monkeypatch.setattr(file_tree, "_version_of", lambda _: version)
    fs = Filesystem()
    assert fs.list_names(folder) == ["a"]
    fs.open_new(folder / "b")
    assert fs.list_names(folder) == ["a", "b"]
    fs.create_file(folder / "c", 1)
    assert fs.list_names(folder) == ["a", "b", "c"]
    fs.rename(folder / "c", folder / "d")
    assert fs.list_names(folder) == ["a", "b", "d"]
    fs.unlink(folder / "d")
    assert fs.list_names(folder) == ["a", "b"]
    fs.make_folder(folder / "e" / "f")
    assert fs.list_names(folder) == ["a", "b", "e"]
    fs.remove_tree(folder / "e")
    assert fs.list_names(folder) == ["a", "b"]


def test_no_more_folders_are_held_than_the_limit(
    folder: Path, reads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_tree, "_MOST_HELD", 0)
    assert names(folder) == names(folder) == ["a"]
    assert reads["queues"] == 2


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_names_are_sorted_however_the_folder_has_them(count: int, tmp_path: Path) -> None:
    wanted = [f"{number:02}" for number in range(count)]
    for name in [*wanted[::2], *reversed(wanted[1::2])]:
        (tmp_path / name).mkdir()
    fs = Filesystem()
    assert (names(tmp_path), fs.list_names(tmp_path), fs.list_folders(tmp_path)) == (wanted, wanted, wanted)
    assert [entry.path for entry in fs.list_below(str(tmp_path.parent), tmp_path.name)] == [
        f"{tmp_path.name}/{name}" for name in wanted
    ]


@pytest.mark.parametrize(
    ("total", "used", "free", "ratio"),
    [
        (1000, 500, 500, 0.5), (1000, 501, 499, 0.51), (1000, 500, 400, 0.56), (1000, 0, 1000, 0.0),
        (1000, 1, 999, 0.01), (1000, 1000, 0, 1.0), (1000, 0, 0, 0.0), (1, 0, 1, 0.0), (0, 0, 0, -1.0),
    ],
)  # fmt: skip
def test_the_used_share_is_in_whole_percents_of_what_a_user_may_use(
    total: int, used: int, free: int, ratio: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: (total, used, free))
    assert Filesystem().used_ratio(tmp_path) == ratio
    assert Filesystem().used_ratio(tmp_path / "none") == -1.0


@pytest.mark.parametrize("name", ["x" * 255, "x" * 256, "x" * 4096, "x\0"], ids=["255", "256", "4096", "NUL"])
def test_a_folder_that_no_file_system_can_hold_is_missing(name: str, folder: Path) -> None:
    fs = Filesystem()
    assert (fs.list_folder(folder / name), fs.list_names(folder / name), fs.list_folders(folder / name)) == ([], [], [])
    assert fs.only_file(str(folder / name), "a") is None


def test_a_name_for_a_new_folder_may_be_of_a_folder_and_of_no_file(tmp_path: Path) -> None:
    fs = Filesystem()
    (tmp_path / "file").touch()
    for name in ("", "none"):
        fs.require_target(tmp_path / name)
    with pytest.raises(BadRequest, match="not a folder") as refused:
        fs.require_target(tmp_path / "file")
    assert refused.value.file == tmp_path / "file"


def test_a_folder_is_removed_where_it_is_empty_or_gone(tmp_path: Path) -> None:
    fs = Filesystem()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_bytes(b"1")
    (tmp_path / "empty").mkdir()
    assert [fs.remove_folder(tmp_path / name) for name in ("full", "empty", "empty", "none")] == [
        False,
        True,
        True,
        True,
    ]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["full"]


def test_all_below_a_folder_is_listed_by_path_and_a_folder_has_neither_size_nor_time(tmp_path: Path) -> None:
    for name, size in (("b/c/2", 2), ("b/1", 1), ("a", 3), ("x/y", 4)):
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_bytes(bytes(size))
        os.utime(tmp_path / "root" / name, ns=(0, 5_999_999))
    found = Filesystem().list_below(str(tmp_path), "root")
    assert [(one.path, one.is_folder, one.size, one.mtime_ms) for one in found] == [
        ("root/a", False, 3, 5),
        ("root/b", True, 0, 0),
        ("root/b/1", False, 1, 5),
        ("root/b/c", True, 0, 0),
        ("root/b/c/2", False, 2, 5),
        ("root/x", True, 0, 0),
        ("root/x/y", False, 4, 5),
    ]
    assert Filesystem().list_below(str(tmp_path), "none") == []


def test_the_time_of_a_link_is_set_and_not_that_of_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.touch()
    link.symlink_to(target)
    before = target.stat().st_mtime_ns
    Filesystem().utime(link, 5_000_000_000)
    assert (link.lstat().st_mtime_ns, target.stat().st_mtime_ns) == (5_000_000_000, before)
