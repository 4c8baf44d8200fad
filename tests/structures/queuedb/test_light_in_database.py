"""Queues that are written twice, with the light queues in the RocksDB alone: combineCQUseRocksdbForLmq (5.5)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store import CheckOptions, check, plan_rebuild, simulate
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.layout import StoreLayout
from store.structures.queuedb.database import open_database
from store.verbs.info import look_at_store
from tests.runs.starts_of_5_5 import start
from tests.support.five_stores import change_database, fivefive
from tests.support.golden import copy_store
from tests.support.refstore import COMMAND_55, needs_refstore55
from tests.support.stores import recover, truncate

pytest.importorskip("rocksdict")
SETTINGS = {
    "rocksdbCQDoubleWriteEnable": "true",
    "useSeparateStorePathForRocksdbCQ": "true",
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "combineCQUseRocksdbForLmq": "true",
}
LIGHT = {("%LMQ%a", 0): 6, ("%LMQ%b", 0): 6}
"""Their messages, at 5257 and after it."""
OPTIONS = CheckOptions(settings=SETTINGS)


def copy_of(tmp_path: Path) -> Path:
    return copy_store(fivefive("combine-separate") / "store", tmp_path / "store")


def lost(tmp_path: Path) -> Path:
    root = copy_of(tmp_path)
    shutil.rmtree(root / "consumequeue_rocksdb")
    return root


def light_in(root: Path) -> dict[tuple[str, int], int]:
    """Return the number of entries of each light queue, in the database and in files."""
    with Scratch() as scratch:
        database = open_database(root / "consumequeue_rocksdb", scratch.folder, Filesystem())
        found = {key: len(database.units(key)) for key in database.newest if key[0].startswith("%LMQ%")}
    assert list((root / "consumequeue").glob("%LMQ%*")) == []
    return found


def test_a_sound_store_has_no_finding_no_loss_and_nothing_to_recover(tmp_path: Path) -> None:
    root = copy_of(tmp_path)
    found = simulate(root, settings=SETTINGS)
    assert (list(check(root, OPTIONS)), found.traps, found.unseen) == ([], [], {})
    assert look_at_store(StoreLayout(root), SETTINGS, Filesystem()).problems == []
    change, _ = recover(root, settings=SETTINGS)
    assert change.is_empty


@pytest.mark.parametrize("way", ["recover", "as a broker", "truncate", "rebuild"])
def test_a_lost_database_is_found_and_built_with_the_light_queues(way: str, tmp_path: Path) -> None:
    root = lost(tmp_path)
    assert {(one.topic, one.queue_id): one.count for one in check(root, OPTIONS)} == LIGHT
    if way == "rebuild":
        with plan_rebuild(root, settings=SETTINGS) as change:
            change.apply()
    elif way == "truncate":
        truncate(root, settings=SETTINGS)
    else:
        recover(root, settings=SETTINGS, as_broker=way == "as a broker")
    assert (light_in(root), list(check(root, OPTIONS))) == (LIGHT, [])


def test_without_double_write_the_light_queues_have_files(tmp_path: Path) -> None:
    root = copy_store(fivefive("combine") / "store", tmp_path / "store")
    shutil.rmtree(root / "consumequeue")
    settings = {name: one for name, one in SETTINGS.items() if name != "rocksdbCQDoubleWriteEnable"}
    with plan_rebuild(root, settings=settings) as change:
        change.apply()
    assert sorted(path.name for path in (root / "consumequeue").glob("%LMQ%*")) == ["%LMQ%a", "%LMQ%b"]
    assert list(root.glob("consumequeue*/CURRENT")) == []


def test_a_start_enters_them_again_from_its_first_segment(tmp_path: Path) -> None:
    found = simulate(lost(tmp_path), settings=SETTINGS)
    assert (found.starts, found.entered_from, found.unseen) == (True, 1, {})


def test_entries_that_the_database_lacks_before_the_start_are_unseen(tmp_path: Path) -> None:
    root = copy_of(tmp_path)
    with Scratch() as scratch:
        database = open_database(root / "consumequeue_rocksdb", scratch.folder, Filesystem())
        keys = [key for key, _ in database.entries() if b"%LMQ%a" in key][:2]
    change_database(root, {"default": dict.fromkeys(keys)}, "consumequeue_rocksdb")
    assert simulate(root, settings=SETTINGS).unseen == {("%LMQ%a", 0): 2}


@needs_refstore55
def test_the_real_broker_enters_them_again_and_keeps_rebuilt_ones(tmp_path: Path) -> None:
    root, settings = lost(tmp_path), [f"{name}={value}" for name, value in SETTINGS.items()]
    start(COMMAND_55, root, tmp_path / "answers", settings)
    assert light_in(root) == LIGHT
    shutil.rmtree(root / "consumequeue_rocksdb")
    recover(root, settings=SETTINGS)
    load, _ = start(COMMAND_55, root, tmp_path / "answers", settings)
    assert (load is not None, light_in(root)) == (True, LIGHT)
