"""A lost index: a given indexRocksDBEnable=true alone shows it, whatever the store's files still show."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store import CheckOptions, check, simulate, staged_store
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.structures import plan_message_database
from store.structures.messagedb.database import open_database
from tests.runs.starts_of_5_5 import start
from tests.support.five_stores import fivefive
from tests.support.golden import copy_store
from tests.support.refstore import COMMAND_55, needs_refstore55
from tests.support.stores import recover

pytest.importorskip("rocksdict")
SETTINGS = {
    "index": {"indexRocksDBEnable": "true"},
    "index-only": {"indexRocksDBEnable": "true", "indexFileWriteEnable": "false", "indexFileReadEnable": "false"},
}
KEYS = 73
"""The keys, tags and unique keys of the 29 records with a unique key."""


RECORDS = [("missing-message-entry", topic, count) for topic, count in (("TopicA", 19), ("TopicB", 9), ("T@", 1))]


def lost(name: str, tmp_path: Path, *, crashed: bool = False) -> Path:
    root = copy_store(fivefive(name) / "store", tmp_path / "store")
    shutil.rmtree(root / "rocksdbstore")
    if crashed:
        (root / "abort").touch()
    return root


def keys_in(root: Path) -> int:
    """Return the number of entries in the index."""
    if not (root / "rocksdbstore").exists():
        return 0
    with Scratch() as scratch:
        return len(list(open_database(root / "rocksdbstore", scratch.folder, Filesystem()).index()))


def found(root: Path, **settings: str) -> list[tuple[str, str | None, int]]:
    return [(one.kind, one.topic, one.count) for one in check(root, CheckOptions(settings=settings))]


@pytest.mark.parametrize("name", SETTINGS)
def test_check_finds_a_lost_index_by_the_setting_alone(name: str, tmp_path: Path) -> None:
    root = lost(name, tmp_path)
    assert found(root, **SETTINGS[name]) == RECORDS
    # Without the setting no file shows that the database had an index.
    assert found(root, **{**SETTINGS[name], "indexRocksDBEnable": "false"}) == []


def test_an_index_that_never_was_entered_is_lost_too(tmp_path: Path) -> None:
    root = copy_store(fivefive("plain") / "store", tmp_path / "store")
    assert found(root, indexRocksDBEnable="true") == RECORDS


@pytest.mark.parametrize("settings", [SETTINGS["index"], {}])
def test_a_killed_broker_had_it_in_memory(settings: dict[str, str], tmp_path: Path) -> None:
    root = copy_store(fivefive("index-killed") / "store", tmp_path / "store")
    assert found(root, **settings) == []


@pytest.mark.parametrize("name", SETTINGS)
def test_a_start_never_enters_it_after_a_shutdown_and_enters_it_after_a_crash(name: str, tmp_path: Path) -> None:
    told = "the index in rocksdbstore reaches 0: a start enters records from 5257 on, and never 73 keys before there"
    (tmp_path / "crashed").mkdir()
    closed, crashed = lost(name, tmp_path), lost(name, tmp_path / "crashed", crashed=True)
    foretold = [simulate(root, settings=SETTINGS[name]).traps for root in (closed, crashed)]
    assert [[(trap.code, trap.detail) for trap in traps] for traps in foretold] == [
        [("message-database-behind", told)],
        [],
    ]


@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_recovery_builds_it_before_abort_is_gone(name: str, crashed: bool, tmp_path: Path) -> None:
    root = lost(name, tmp_path, crashed=crashed)
    recover(root, settings=SETTINGS[name])
    assert (keys_in(root), (root / "abort").exists(), found(root, **SETTINGS[name])) == (KEYS, False, [])


def test_a_recovery_as_a_broker_builds_it_after_a_crash(tmp_path: Path) -> None:
    root = lost("index", tmp_path, crashed=True)
    recover(root, settings=SETTINGS["index"], as_broker=True)
    assert keys_in(root) == KEYS


def test_the_remedy_builds_it(tmp_path: Path) -> None:
    root = lost("index", tmp_path)
    with staged_store(root, settings=SETTINGS["index"]) as opened, plan_message_database(opened) as change:
        change.apply()
    assert (keys_in(root), found(root, **SETTINGS["index"])) == (KEYS, [])


@needs_refstore55
@pytest.mark.parametrize(("crashed", "keys"), [(False, 0), (True, KEYS)])
def test_the_real_broker_enters_as_many(crashed: bool, keys: int, tmp_path: Path) -> None:
    root = lost("index", tmp_path, crashed=crashed)
    start(COMMAND_55, root, tmp_path / "answers", ["indexRocksDBEnable=true"])
    assert keys_in(root) == keys


@needs_refstore55
def test_the_real_broker_keeps_a_recovered_one(tmp_path: Path) -> None:
    root = lost("index", tmp_path, crashed=True)
    recover(root, settings=SETTINGS["index"])
    start(COMMAND_55, root, tmp_path / "answers", ["indexRocksDBEnable=true"])
    assert keys_in(root) == KEYS
