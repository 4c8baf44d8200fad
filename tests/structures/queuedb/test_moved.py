"""A store whose queues were in a RocksDB, saved or restored with queue files, and started with a RocksDB again."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import check, salvage, simulate
from tests.cli.running import rmqctl
from tests.runs.both_kinds import started
from tests.support.five_stores import fivefive
from tests.support.refstore import COMMAND_55, needs_refstore55
from tests.verbs.backup.backups import back_up, restore

pytest.importorskip("rocksdict")
OLDER = 540
"""The messages before the newest 10 of 28 segments, with 30 each."""


def moved(way: str, folder: Path) -> Path:
    """Make a new store of one with 28 segments."""
    source, new = fivefive("both-kinds") / "files-behind", folder / "new"
    if way == "salvage":
        salvage(source, new, keep_offsets=True)
    else:
        back_up(source, folder / "backups")
        restore(folder / "backups", new)
    return new


def rebuild(root: Path) -> None:
    run = rmqctl("--set", "storeType=defaultRocksDB", "rebuild", "--queues", "--yes", store=root)
    assert run.code == 0, run.err


def unseen(root: Path, **settings: object) -> int:
    """Return the number of messages that no queue shows after a start."""
    return sum(simulate(root, compat="5.5", settings=settings).unseen.values())


@pytest.mark.parametrize("way", ["salvage", "restore"])
def test_a_rebuild_before_the_start_keeps_what_a_start_with_an_empty_database_leaves_out(
    way: str, tmp_path: Path
) -> None:
    new = moved(way, tmp_path)
    assert list(check(new)) == []
    assert unseen(new) == 0
    assert unseen(new, storeType="defaultRocksDB") == OLDER
    rebuild(new)
    assert list(check(new)) == []
    assert unseen(new) == 0


@needs_refstore55
def test_the_real_broker_shows_as_many(tmp_path: Path) -> None:
    new, answers, settings = moved("restore", tmp_path), tmp_path / "answers", ["storeType=defaultRocksDB"]
    rebuilt = tmp_path / "rebuilt"
    rmqctl("backup", "restore", tmp_path / "backups", "--to", rebuilt)
    rebuild(rebuilt)
    assert sum(started(COMMAND_55, new, answers, settings)["unseen"].values()) == OLDER
    assert started(COMMAND_55, rebuilt, answers, settings)["unseen"] == {}
