"""A store whose consume queues are in a RocksDB, recovered: a new database of what the log holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store import check, open_store
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.structures.queuedb.database import open_database
from store.structures.queuedb.keys import CHECKPOINT_TOPIC, Place, encode_long, encode_place, offset_key, unit_key
from store.verbs.queue_ends import queue_ends
from tests.cli.running import rmqctl
from tests.support.five_stores import copy_of_five, damage, five, lines
from tests.support.rocksdb import answers_differ, edit, keys_of, written_keys
from tests.support.snapshots import contents

pytest.importorskip("rocksdict", reason="rocksdict is not installed: it writes RocksDBs")

CASES = [line["damage"] for line in lines("rocksdb", "damaged.jsonl")]


def recover(root: Path, *words: str) -> dict[str, Any]:
    settings = ("--set", "storeType=defaultRocksDB", "--set", "enableLmq=true", "--set", "enableMultiDispatch=true")
    run = rmqctl("--format", "json", *settings, "recover", *words, "--yes", store=root)
    assert run.code == 0, run.err
    return run.json


def test_a_killed_store_is_closed_and_answers_as_after_the_broker_s_recovery(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb-aborted", tmp_path)
    facts = recover(root)
    assert (facts["mode"], facts["record_count"], facts["lost_messages"]) == ("abnormal", 185, 0)
    assert not (root / "abort").exists()
    assert answers_differ("rocksdb-aborted", root) == []
    assert list(check(root)) == []


def test_a_closed_store_is_left_as_it_is(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    before = contents(root / "consumequeue")
    assert recover(root)["applied"] is False
    assert contents(root / "consumequeue") == before


@pytest.mark.turns(2)
@pytest.mark.parametrize("how", CASES, ids=lambda how: how["name"])
def test_each_damage_of_the_database_is_mended(how: dict[str, Any], tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    damage(root, how)
    recover(root)
    assert answers_differ("rocksdb", root) == []
    assert list(check(root)) == []


def test_units_behind_a_cut_log_are_gone_and_their_messages_counted(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    damage(root, {"zero": [["commitlog/00000000000000000000", 50000, 2000]], "create": ["abort"]})
    facts = recover(root)
    assert facts["log_end"] <= 50000
    assert facts["lost_messages"] > 0
    assert {one.kind for one in check(root)} == {"stale-tail"}


# Queues that are written twice: the files as usual, and a new RocksDB.


def units_of(root: Path, scratch: Path) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Queue offset and log offset of each unit in the RocksDB of a store, by queue."""
    scratch.mkdir()
    database = open_database(root / "consumequeue", scratch, Filesystem())
    return {
        queue: list(zip(units["queue_offset"].tolist(), units["log_offset"].tolist(), strict=True))
        for queue in database.newest
        if len(units := database.units(queue))
    }


def recover_files(root: Path, *words: str) -> dict[str, Any]:
    run = rmqctl("--format", "json", "recover", *words, "--yes", store=root)
    assert run.code == 0, run.err
    return run.json


def lose_units(units: Any, offsets: Any) -> None:
    """As a crash before a flush: the newest units and the places that name them."""
    del units[unit_key("RockA", 0, 21)]
    offsets[offset_key("RockA", 0, "max")] = encode_place(Place(20000, 20))
    offsets[offset_key(CHECKPOINT_TOPIC, 0, "max")] = encode_long(20319)


@pytest.mark.turns(2)
@pytest.mark.parametrize("how", [{"create": ["abort"]}, {"remove": ["consumequeue/CURRENT"]}, {}])
def test_a_rocksdb_beside_files_is_built_anew_where_it_may_lack_units(how: dict[str, Any], tmp_path: Path) -> None:
    root = copy_of_five("rocksdb-double", tmp_path)
    if not how:
        edit(root, lose_units)
    damage(root, how)
    facts = recover_files(root)
    assert "double-write" in {one["difference"] for one in facts["differs_from_broker"]}
    assert keys_of(root, tmp_path) == written_keys("rocksdb-double")
    assert answers_differ("rocksdb-double", root) == []
    assert list(check(root)) == []


def test_a_closed_double_write_is_left_as_it_is(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb-double", tmp_path)
    before = contents(root)
    assert recover_files(root)["applied"] is False
    assert contents(root) == before


@pytest.mark.parametrize("mode", ["--normal", "--abnormal"])
def test_a_cut_log_ends_files_and_rocksdb_at_the_same_message(mode: str, tmp_path: Path) -> None:
    root = copy_of_five("rocksdb-double", tmp_path)
    before = contents(root / "consumequeue")
    damage(root, {"zero": [["commitlog/00000000000000000000", 15000, 2000]]})
    facts = recover_files(root, mode)
    assert (facts["log_end"], facts["lost_messages"]) == (14948, 26)
    in_files = {
        (end.topic, end.queue_id): end.max_offset for end in queue_ends(StoreReader(str(root))) if end.max_offset
    }
    in_database = units_of(root, tmp_path / "scratch")
    assert {queue: units[-1][0] + 1 for queue, units in in_database.items()} == in_files
    assert max(log_offset for units in in_database.values() for _, log_offset in units) < 14948
    assert rmqctl("undo", facts["change_id"], store=root).code == 0
    assert contents(root / "consumequeue") == before


def test_a_dry_run_on_a_double_write_changes_nothing(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb-double", tmp_path)
    damage(root, {"create": ["abort"]})
    before = contents(root)
    assert rmqctl("recover", "--dry-run", store=root).code == 0
    assert contents(root) == before


def test_the_binding_is_not_needed_where_files_are_all_there_is(tmp_path: Path, without_rocksdict: None) -> None:
    root = copy_of_five("bcq-aborted", tmp_path)
    assert rmqctl("recover", "--yes", store=root).code == 0


@pytest.mark.parametrize("name", ["rocksdb", "rocksdb-double"])
def test_the_way_out_that_a_refused_put_names_leads_to_a_store_that_takes_it(name: str, tmp_path: Path) -> None:
    root, new = copy_of_five(name, tmp_path), tmp_path / "new"
    run = rmqctl("put", "RockA", "one more", store=root)
    assert run.code == 4
    assert "`rmqctl salvage --to NEWSTORE` makes a store with queue files" in run.err
    assert rmqctl("salvage", "--to", str(new), store=root).code == 0
    with open_store(root) as old, open_store(new) as store:
        saved = [[message.body for message in one.messages("RockA", 0)] for one in (old, store)]
    assert saved[0] == saved[1]
    assert rmqctl("put", "RockA", "one more", "--queue", "0", store=new).code == 0
    with open_store(new) as store:
        assert [message.body for message in store.messages("RockA", 0)] == [*saved[0], b"one more"]


def test_without_the_binding_recover_says_how_to_install_it(without_rocksdict: None) -> None:
    run = rmqctl("recover", "--abnormal", "--dry-run", store=five("rocksdb-aborted") / "store")
    assert run.code == 2
    assert "pip install 'rmqctl[rocksdb]'" in run.err


@pytest.mark.parametrize(("name", "queue_end"), [("rocksdb", 55104), ("rocksdb-aborted", 39650)])
def test_the_checkpoint_is_shown_beside_the_end_that_the_rocksdb_remembers(name: str, queue_end: int) -> None:
    run = rmqctl("--format", "json", "checkpoint", "show", store=five(name) / "store")
    assert (run.code, run.json["queues_built_to"], "are lost" in run.err) == (0, queue_end, False)
    assert f"({queue_end})" in run.json["start_reason"]
