"""A store whose consume queues are in a RocksDB, recovered: a new database of what the log holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store import check
from tests.cli.running import rmqctl
from tests.five.stores import copy_of_five, damage, five, lines
from tests.five.test_rocksdb import answers_differ, without_rocksdict
from tests.support.snapshots import contents

pytest.importorskip("rocksdict", reason="rocksdict is not installed: it writes RocksDBs")
__all__ = ["without_rocksdict"]

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


def test_without_the_binding_recover_says_how_to_install_it(without_rocksdict: None) -> None:
    run = rmqctl("recover", "--abnormal", "--dry-run", store=five("rocksdb-aborted") / "store")
    assert run.code == 2
    assert "pip install 'rmqctl[rocksdb]'" in run.err
