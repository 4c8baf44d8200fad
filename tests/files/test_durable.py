"""Many files made durable: each one once, whatever their number, and the first failure is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.errors import StoreIOError
from store.files.durable import FEW, do_for_each, sync_files, sync_folders
from store.files.filesystem import Filesystem

COUNTS = [0, 1, FEW, FEW + 1, 3 * FEW]


@pytest.mark.parametrize("count", COUNTS)
def test_each_item_is_done_once(count: int) -> None:
    done: list[int] = []
    do_for_each(done.append, range(count))
    assert sorted(done) == list(range(count))


def test_few_items_are_done_in_their_order() -> None:
    done: list[int] = []
    do_for_each(done.append, range(FEW))
    assert done == list(range(FEW))


@pytest.mark.parametrize("count", COUNTS[1:])
def test_the_error_of_the_first_that_fails_is_raised(count: int) -> None:
    def fail(number: int) -> None:
        if number >= count - 1:
            raise OSError(f"item {number}")

    with pytest.raises(OSError, match=f"item {count - 1}"):
        do_for_each(fail, range(count))


@pytest.mark.parametrize("count", [2, FEW + 2])
def test_a_file_or_folder_that_is_not_there_is_named(count: int, tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(count)]
    for path in paths[:-1]:
        path.touch()
    with pytest.raises(StoreIOError, match="no such file"):
        sync_files(paths, Filesystem())
    with pytest.raises(StoreIOError):
        sync_folders([tmp_path] * count + [paths[-1]], Filesystem())
