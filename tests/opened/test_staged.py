"""The folder in which a command builds files: where it is, what is removed with it, and who may not have one."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.errors import StoreIOError, StoreLocked
from store.files.filesystem import Filesystem
from store.files.lock import StoreLock
from store.layout import StoreLayout
from store.opened.staged import locked_store, staging
from tests.support.stores import make_store


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    return StoreLayout(make_store(tmp_path / "store", 1))


def test_a_folder_is_in_the_store_and_goes_with_what_a_command_before_it_left(layout: StoreLayout) -> None:
    left = layout.own / "staging" / "other-1" / "deep"
    left.mkdir(parents=True)
    with staging(layout, Filesystem(), "put", dry_run=False) as folder:
        assert (folder.parent, folder.name.split("-")[0]) == (left.parent.parent, "put")
        assert not left.parent.exists()
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    assert not layout.own.exists()


def test_what_else_is_there_stays(layout: StoreLayout) -> None:
    layout.own.mkdir()
    (layout.own / "kept").write_text("x")
    with staging(layout, Filesystem(), "put", dry_run=False) as folder:
        folder.mkdir(parents=True)
    assert [path.name for path in layout.own.iterdir()] == ["kept"]


def test_a_dry_run_builds_elsewhere(layout: StoreLayout, tmp_path: Path) -> None:
    with staging(layout, Filesystem(), "put", dry_run=True, scratch=tmp_path) as folder:
        assert (folder.parent, folder.is_dir()) == (tmp_path, True)
    assert (folder.exists(), layout.own.exists()) == (False, False)


def test_a_change_that_was_interrupted_comes_first(layout: StoreLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    class Half:
        id, code = "20260101-1", "interrupted"

    monkeypatch.setattr("store.change.quarantine.interrupted_change", lambda root, fs: Half)
    with (
        pytest.raises(StoreIOError, match=": the change 20260101-1 was interrupted") as error,
        staging(layout, Filesystem(), "put", dry_run=False),
    ):
        pass
    assert (error.value.code, error.value.subject) == ("interrupted", Half)


@pytest.mark.parametrize("take", [True, False])
def test_the_lock_is_held_where_it_is_taken(take: bool, layout: StoreLayout) -> None:
    with locked_store(layout.root, take=take):
        if take:
            with pytest.raises(StoreLocked):
                StoreLock(layout.lock, Filesystem()).acquire()
    with StoreLock(layout.lock, Filesystem()):
        pass
