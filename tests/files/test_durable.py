"""Many files and folders made durable: each one once, whatever their number, and the first failure is told."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from store.errors import StoreIOError
from store.files import durable
from store.files.durable import FEW, QUICK_S, THREADS, do_for_each, sync_files, sync_folders, sync_tree
from store.files.filesystem import Filesystem
from store.files.segment_folders import UnsyncedFolders
from tests.support.faulty_filesystem import FaultyFilesystem

COUNTS = [0, 1, FEW, FEW + 1, 3 * FEW]


@pytest.fixture(params=[QUICK_S, -1.0], ids=["a quick device", "a slow device"])
def quick_s(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr(durable, "QUICK_S", request.param)
    return float(request.param)


@pytest.mark.usefixtures("quick_s")
@pytest.mark.parametrize("count", COUNTS)
def test_each_item_is_done_once(count: int) -> None:
    done: list[int] = []
    do_for_each(done.append, range(count))
    assert sorted(done) == list(range(count))


@pytest.mark.parametrize(("quick_s", "count", "is_in_order"), [(-1, FEW, True), (-1, FEW + 1, False), (9, 500, True)])
def test_few_items_and_those_of_a_quick_device_are_done_in_their_order(
    quick_s: float, count: int, is_in_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "QUICK_S", quick_s)
    threads: list[int] = []
    do_for_each(lambda _: threads.append(threading.get_ident()), range(count))
    assert (set(threads) == {threading.get_ident()}) == is_in_order


def test_a_device_that_becomes_slow_gets_threads_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow first item alone is none: the time of FEW quick ones passes before."""
    times = [0, *[FEW] * FEW, FEW + 1, FEW + 2.1]
    now, threads = iter(times), list[bool]()
    monkeypatch.setattr("store.files.durable.time.monotonic", lambda: next(now) * QUICK_S)
    do_for_each(lambda _: threads.append(threading.current_thread() is threading.main_thread()), range(FEW + 9))
    assert threads == [True] * (FEW + 2) + [False] * 7


@pytest.mark.usefixtures("quick_s")
@pytest.mark.parametrize("count", COUNTS[1:])
def test_the_error_of_the_first_that_fails_is_raised(count: int) -> None:
    def fail(number: int) -> None:
        if number >= count - 1:
            raise OSError(f"item {number}")

    with pytest.raises(OSError, match=f"item {count - 1}"):
        do_for_each(fail, range(count))


def test_of_several_that_fail_the_first_counts_and_no_more_are_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "QUICK_S", -1.0)
    all_begun, begun = threading.Barrier(THREADS), list[int]()

    def fail(number: int) -> None:
        if number:
            begun.append(number)
            all_begun.wait(60)
            raise OSError(f"item {number}")

    with pytest.raises(OSError, match=r"item 1$"):
        do_for_each(fail, range(3 * FEW))
    assert sorted(begun) == list(range(1, THREADS + 1))


@pytest.mark.parametrize("count", [2, FEW + 2])
def test_a_file_or_folder_that_is_not_there_is_named(count: int, tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(count)]
    for path in paths[:-1]:
        path.touch()
    with pytest.raises(StoreIOError, match="no such file"):
        sync_files(paths, Filesystem())
    with pytest.raises(StoreIOError):
        sync_folders([tmp_path] * count + [paths[-1]], Filesystem())


class Folders(Filesystem):
    """Notes the folders that are made durable; `meanwhile` is called before each."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.meanwhile = lambda: None

    def fsync_folder(self, folder: Path) -> None:
        self.meanwhile()
        self.synced.append(folder.name)


def test_a_folder_with_many_new_names_is_made_durable_once() -> None:
    fs, folders = Folders(), UnsyncedFolders()
    for name in "abab":
        folders.add([Path(name), Path("root")])
    for _ in range(2):
        folders.sync(fs)
        assert (fs.synced, folders.are_left) == (["a", "b", "root"], False)


def test_a_name_that_comes_while_its_folder_is_made_durable_waits_for_the_next_time() -> None:
    fs, folders = Folders(), UnsyncedFolders()
    folders.add([Path("a")])
    fs.meanwhile = lambda: folders.add([Path("a")])
    folders.sync(fs)
    fs.meanwhile = lambda: None
    assert folders.are_left
    folders.sync(fs)
    assert (fs.synced, folders.are_left) == (["a", "a"], False)


def test_folders_that_could_not_be_made_durable_are_tried_again() -> None:
    fs, folders = Folders(), UnsyncedFolders()
    folders.add([Path("a"), Path("b")])

    def fail() -> None:
        raise StoreIOError("the device is gone")

    fs.meanwhile = fail
    with pytest.raises(StoreIOError, match="the device is gone"):
        folders.sync(fs)
    fs.meanwhile = lambda: None
    folders.sync(fs)
    assert fs.synced == ["a", "b"]


def test_who_comes_second_waits_until_the_first_has_made_the_folders_durable() -> None:
    fs, folders, is_begun, may_end = Folders(), UnsyncedFolders(), threading.Event(), threading.Event()
    folders.add([Path("a")])

    def wait() -> None:
        is_begun.set()
        may_end.wait(60)

    fs.meanwhile = wait
    first = threading.Thread(target=folders.sync, args=(fs,))
    first.start()
    is_begun.wait(60)
    found = list[list[str]]()
    second = threading.Thread(target=lambda: (folders.sync(fs), found.append(list(fs.synced))))
    second.start()
    second.join(0.05)
    may_end.set()
    first.join()
    second.join()
    assert found == [["a"]]


def test_a_tree_is_made_durable_with_its_files_and_folders_and_without_it_nothing_is(tmp_path: Path) -> None:
    fs, tree = FaultyFilesystem(), tmp_path / "tree"
    sync_tree(tree, fs)
    (tree / "a" / "b").mkdir(parents=True)
    for name in ("1", "a/2", "a/b/3"):
        (tree / name).touch()
    sync_tree(tree, fs)
    synced = sorted((name, str(getattr(one, "path", one))) for name, one in fs.operations if "sync" in name)
    assert synced == [
        *(("fdatasync", str(tree / name)) for name in ("1", "a/2", "a/b/3")),
        *(("fsync_folder", str(tree / name)) for name in ("", "a", "a/b")),
    ]
