"""Scratch folders are removed on every way out, and those of killed processes by the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from store import open_store
from store.errors import StoreIOError
from store.opened.scratch import Scratch
from tests.cli.running import rmqctl
from tests.opened.test_missing_parts import LOST
from tests.support.stores import make_store


def test_the_folder_is_this_users_alone_and_goes_at_the_end(tmp_path: Path) -> None:
    with Scratch(tmp_path) as scratch:
        (scratch.folder / "part").write_bytes(b"x")
        assert scratch.folder.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(60)
    (tmp_path / f"rmqctl-{gone.pid}-abandoned").mkdir()
    (tmp_path / f"rmqctl-{os.getpid()}-in-use").mkdir()
    (tmp_path / "rmqctl-plan").mkdir()
    with Scratch(tmp_path) as scratch:
        expected = {scratch.folder.name, f"rmqctl-{os.getpid()}-in-use", "rmqctl-plan"}
        assert {path.name for path in tmp_path.iterdir()} == expected


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreIOError, match="make a scratch folder"):
        _ = Scratch(tmp_path / "absent").folder


def test_what_is_built_for_a_reader_is_built_there(tmp_path: Path) -> None:
    root, place = make_store(tmp_path / "store", 60), tmp_path / "scratch"
    LOST["consumequeue"](root)
    place.mkdir()
    with open_store(root, scratch=place, settings={"mappedFileSizeConsumeQueue": 400}) as store:
        store.get("T", 0, 0)
        assert [path.parent.parent.name for path in place.glob("*/consumequeue/T/0/*")]
    assert list(place.iterdir()) == []


def test_the_command_line_says_where(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 60)
    absent = tmp_path / "absent"
    assert rmqctl("--scratch", absent, "recover", "--dry-run", store=root).code == 5
    (place := tmp_path / "scratch").mkdir()
    assert rmqctl("--scratch", place, "get", "T", store=root).code == 0
    assert list(place.iterdir()) == []
