"""Scratch folders are removed on every way out, and those of killed processes by the next one."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from rmqctl.hints import describe
from store import open_store, plan_rebuild, simulate, staged_store
from store.errors import StoreIOError
from store.files.scratch import Scratch
from tests.cli.running import rmqctl
from tests.support.missing_parts import LOST
from tests.support.stores import make_store


def test_the_folder_is_this_users_alone_and_goes_at_the_end(tmp_path: Path) -> None:
    with Scratch(tmp_path) as scratch:
        (scratch.folder / "part").write_bytes(b"x")
        assert scratch.folder.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_a_place_for_scratch_files_may_be_text(tmp_path: Path) -> None:
    root, place = make_store(tmp_path / "store", 3), tmp_path / "scratch"
    place.mkdir()
    with staged_store(root, dry_run=True, scratch=str(place)) as opened, open_store(root, scratch=str(place)):
        assert opened.overlay is not None
        assert opened.overlay.folder.is_relative_to(place)
    with plan_rebuild(root, dry_run=True, scratch=str(place)) as change:
        # Three queues and the index.
        assert [path.is_relative_to(place) for path in change.published.values()] == [True] * 4
    assert simulate(root, scratch=str(place)) == simulate(root)
    assert list(place.iterdir()) == []
    with pytest.raises(StoreIOError) as refused:
        simulate(root, scratch=str(place / "missing"))
    assert refused.value.code == "scratch-place"


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    program = "import os, sys, pathlib; from store.files.scratch import Scratch; s = Scratch(pathlib.Path(sys.argv[1]))"
    words = [sys.executable, "-c", f"{program}; (s.folder / 'part').touch(); os.kill(os.getpid(), 9)", str(tmp_path)]
    assert subprocess.run(words, check=False, timeout=60).returncode == -9
    (tmp_path / "rmqctl-plan").mkdir()
    assert len(list(tmp_path.iterdir())) == 2
    with Scratch(tmp_path) as scratch:
        made = scratch.folder
        assert sorted(tmp_path.iterdir()) == [tmp_path / "rmqctl-plan", made]


def test_what_another_process_uses_stays(tmp_path: Path) -> None:
    with Scratch(tmp_path) as other, Scratch(tmp_path) as scratch:
        (other.folder / "part").touch()
        assert scratch.folder != other.folder
        assert (other.folder / "part").exists()


def test_a_folder_that_another_process_took_for_an_abandoned_one_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make = [], tempfile.mkdtemp

    def make_and_lose(**options: Any) -> str:
        made.append(make(**options))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose)
    with Scratch(tmp_path) as scratch:
        assert scratch.folder == Path(made[1])
        assert scratch.folder.is_dir()


def test_without_locks_nothing_is_taken_for_abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with Scratch(tmp_path) as other, Scratch(tmp_path) as scratch:
        assert other.folder.is_dir()
        assert scratch.folder.is_dir()
        assert other.folder.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreIOError, match="make a scratch folder"):
        _ = Scratch(tmp_path / "absent").folder


def test_what_is_built_for_a_reader_is_built_there(tmp_path: Path) -> None:
    root, place = make_store(tmp_path / "store", 60), tmp_path / "scratch"
    LOST["consumequeue"](root)
    place.mkdir()
    with open_store(root, scratch=place, settings={"mappedFileSizeConsumeQueue": 400}) as store:
        store.get("T", 0, 0)
        assert list(place.glob("*/consumequeue/*"))
    assert list(place.iterdir()) == []


def test_the_command_line_says_where(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 60)
    absent = tmp_path / "absent"
    assert rmqctl("--scratch", absent, "recover", "--dry-run", store=root).code == 4
    (place := tmp_path / "scratch").mkdir()
    assert rmqctl("--scratch", place, "get", "T", store=root).code == 0
    assert list(place.iterdir()) == []


def test_what_names_no_folder_of_its_own_builds_there_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, before, used = make_store(tmp_path / "store", 60), tempfile.tempdir, []
    monkeypatch.setattr(Scratch, "close", lambda scratch: used.append(scratch.folder))
    (root / "abort").touch()
    (place := tmp_path / "scratch").mkdir()
    rmqctl("--scratch", place, "doctor", store=root)
    assert {path.parent for path in used} == {place}
    assert tempfile.tempdir == before


@pytest.mark.parametrize("inside", ["", "commitlog", "consumequeue/T"])
def test_a_place_inside_of_the_store_is_refused(inside: str, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 60)
    run = rmqctl("--scratch", root / inside, "get", "T", store=root)
    assert run.code == 2
    assert "is inside of" in run.err


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 60)
    (tmp_path / "file").touch()
    run = rmqctl("--scratch", tmp_path / "file", "get", "T", store=root)
    assert run.code == 2
    assert run.err == (
        f"rmqctl: Invalid value for '--scratch': {tmp_path / 'file'} is a file; name a folder (see rmqctl --help)\n"
    )


def test_a_full_scratch_folder_is_named_with_the_option_that_names_another() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    assert describe(StoreIOError.from_os(full, Path("/tmp/rmqctl-scratch-1/index/1"))).endswith(
        "; --scratch DIR names another folder for what is built"
    )
    assert "--scratch" not in describe(StoreIOError.from_os(full, Path("/store/index/1")))


def test_a_scratch_folder_is_there_within_its_block_alone(tmp_path: Path) -> None:
    with Scratch(tmp_path) as scratch:
        folder = scratch.folder
        (folder / "file").touch()
        assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []
    scratch.close()
