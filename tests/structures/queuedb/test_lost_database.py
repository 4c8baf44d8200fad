"""A lost database of queues comes back in the folder of useSeparateStorePathForRocksdbCQ, as 5.5 accepts no other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store import CheckOptions, check, plan_rebuild, simulate
from store.config import StoreConfig
from store.verbs.salvage.new_store import describe_queue_files
from tests.runs.both_kinds import started
from tests.support.five_stores import fivefive
from tests.support.golden import copy_store
from tests.support.refstore import COMMAND_55, needs_refstore55
from tests.support.stores import recover

pytest.importorskip("rocksdict")
SETTINGS = {"storeType": "defaultRocksDB", "useSeparateStorePathForRocksdbCQ": "true"}
WAYS = ("recover", "as a broker", "rebuild")


def rebuilt(way: str, tmp_path: Path) -> Path:
    """Lose the folder of the database, and build it in one of the ways."""
    root = copy_store(fivefive("rocksdbcq-separate") / "store", tmp_path / "store")
    shutil.rmtree(root / "consumequeue_rocksdb")
    if way == "rebuild":
        with plan_rebuild(root, settings=SETTINGS) as change:
            change.apply()
    else:
        recover(root, as_broker=way == "as a broker", settings=SETTINGS)
    return root


def databases(root: Path) -> list[str]:
    return sorted(path.parent.name for path in root.glob("consumequeue*/CURRENT"))


@pytest.mark.parametrize("way", WAYS)
def test_a_lost_database_is_built_in_its_own_folder(way: str, tmp_path: Path) -> None:
    root = rebuilt(way, tmp_path)
    assert databases(root) == ["consumequeue_rocksdb"]
    assert list(check(root, CheckOptions(settings=SETTINGS))) == []
    foretold = simulate(root, settings=SETTINGS)
    assert (foretold.starts, foretold.traps, sum(foretold.unseen.values())) == (True, [], 0)


def test_without_the_setting_a_folder_that_is_left_has_it_again(tmp_path: Path) -> None:
    root = copy_store(fivefive("rocksdbcq-separate") / "store", tmp_path / "store")
    for path in (root / "consumequeue_rocksdb").iterdir():
        path.unlink()
    with plan_rebuild(root, settings={"storeType": "defaultRocksDB"}) as change:
        change.apply()
    assert databases(root) == ["consumequeue_rocksdb"]


@pytest.mark.parametrize("separate", ["true", "false"])
def test_the_setting_has_the_last_word_on_an_empty_folder(separate: str, tmp_path: Path) -> None:
    root = copy_store(fivefive("rocksdbcq-separate") / "store", tmp_path / "store")
    for path in (root / "consumequeue_rocksdb").iterdir():
        path.unlink()
    with plan_rebuild(root, settings={**SETTINGS, "useSeparateStorePathForRocksdbCQ": separate}) as change:
        change.apply()
    assert databases(root) == ["consumequeue_rocksdb" if separate == "true" else "consumequeue"]


@needs_refstore55
@pytest.mark.parametrize("way", WAYS)
def test_the_real_broker_starts_on_it_and_shows_every_message(way: str, tmp_path: Path) -> None:
    root = rebuilt(way, tmp_path)
    settings = [f"{name}={value}" for name, value in SETTINGS.items()]
    assert started(COMMAND_55, root, tmp_path / "answers", settings) == {
        "starts": True, "log_end": 5257, "unseen": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("separate", "told"),
    [
        ("true", "storeType=defaultRocksDB and useSeparateStorePathForRocksdbCQ=true"),
        ("false", "storeType=defaultRocksDB"),
    ],
)
def test_a_new_store_s_notes_name_the_setting_too(separate: str, told: str) -> None:
    config = StoreConfig().with_settings({**SETTINGS, "useSeparateStorePathForRocksdbCQ": separate})
    assert describe_queue_files(config)[1] == (
        f"for {told} rebuild its queues with this setting first: a broker that creates the database itself may leave "
        "older messages without entries"
    )
