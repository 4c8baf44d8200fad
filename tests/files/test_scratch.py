"""A folder of scratch files is locked before it is used, and another one is made where that fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from store.files import scratch
from tests.support.processes import open_below

TAKE = scratch._lock
Lock = Callable[[Path], int | None]


def removed(folder: Path) -> int | None:
    folder.rmdir()
    return TAKE(folder)


def removed_after_its_lock(folder: Path) -> int | None:
    lock = TAKE(folder)
    folder.rmdir()
    return lock


def held_by_another(folder: Path) -> int | None:
    return None


def without_locks(folder: Path) -> int | None:
    raise OSError("no locks here")


@pytest.mark.parametrize(
    ("first", "folders", "is_locked"),
    [
        (TAKE, 1, True),
        (removed, 1, True),
        (removed_after_its_lock, 1, True),
        (held_by_another, 2, True),
        (without_locks, 1, False),
    ],
)
def test_the_next_folder_is_taken_where_the_first_is_gone_or_held(
    first: Lock, folders: int, is_locked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = iter([first, TAKE])

    def lock_next(folder: Path) -> int | None:
        return next(locks)(folder)

    monkeypatch.setattr(scratch, "_lock", lock_next)
    folder, lock = scratch._make_locked(tmp_path)
    assert (folder.is_dir(), lock is not None, len(list(tmp_path.iterdir()))) == (True, is_locked, folders)
    if lock is not None:
        assert TAKE(folder) is None
        os.close(lock)
    assert open_below(tmp_path) == []


def test_folders_that_are_always_removed_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_lock", removed)
    with pytest.raises(FileExistsError, match=f"other processes removed {scratch._TRIES} new folders"):
        scratch._make_locked(tmp_path)
