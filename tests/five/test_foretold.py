"""A simulated start foretells what the real store said of each damage that was done to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from store import open_store
from tests.cli.running import rmqctl
from tests.five.stores import copy_of_five, damage, five, lines

CASES = lines("bcq", "damaged.jsonl")
ACCEPTED_TORN = "second half of the last entry zero"
"""DLedger checks no length inside of a record."""
FORETOLD = [
    pytest.param(name, case, id=f"{name}: {case['damage']['name']}")
    for name in ("bcq", "rocksdb", "dledger")
    for case in lines(name, "damaged.jsonl")
    if case["damage"]["name"] != ACCEPTED_TORN
]


@pytest.mark.parametrize(("name", "case"), FORETOLD)
def test_whether_a_broker_starts_and_where_its_log_ends_is_foretold(
    name: str, case: dict[str, Any], tmp_path: Path
) -> None:
    root = copy_of_five(name, tmp_path)
    damage(root, case["damage"])
    sizes = ("--set", "mapperFileSizeBatchConsumeQueue=552", "--set", "mappedFileSizeConsumeQueue=400")
    [start] = rmqctl("--format", "json", *sizes, "simulate", "--compat", "5.3", store=root).json["outcomes"]
    said = case["loadOnly"]
    assert start["starts"] == said["storeLoad"]
    if start["starts"]:
        assert start["log_end"] == said["maxPhyOffset"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["damage"]["name"])
def test_each_damage_is_named_by_doctor(case: dict[str, Any], tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    damage(root, case["damage"])
    run = rmqctl("--format", "json", "doctor", store=root)
    assert (run.code, run.json["worst_rank"] <= 3) == (1, True)


@pytest.mark.parametrize(
    "name", ["bcq-aborted", "dledger-killed", "dledger-mixed", "rocksdb-aborted", "rocksdb-double"]
)
def test_the_files_of_log_and_queues_are_foretold(name: str) -> None:
    start = rmqctl("--format", "json", "simulate", "--compat", "5.3", store=five(name) / "store").json["outcomes"][0]
    folders = ("commitlog/0", "consumequeue/", "batchconsumequeue/", "dledger-n0/data/")
    left = json.loads((five(name) / "files-after-load-normal.json").read_bytes())
    # Files beside the folders of topics are RocksDB's own.
    own = [path for path in left if path.startswith("consumequeue/") and path.count("/") == 1]
    expected = {path: size for path, (size, _) in left.items() if path.startswith(folders) and path not in own}
    assert {file["file"]: file["size"] for file in start["files"] if file["action"] != "remove"} == expected
    assert start["log_end"] == lines(name, "load-only.json")[0]["load"]["maxPhyOffset"]


def test_messages_behind_damage_of_a_store_with_a_rocksdb_are_lost(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb-aborted", tmp_path)
    with open_store(root) as store:
        cut = store.get("RockA", 0, 5).messages[0].log_offset
    damage(root, {"zero": [["commitlog/00000000000000000000", cut, 8]]})
    start = rmqctl("--format", "json", "simulate", store=root).json["outcomes"][0]
    assert (start["log_end"], start["starts"]) == (cut, True)
    assert start["losses"]["units_cut"] > 0
    assert {"RockA", "RockBee"} <= {row["topic"] for row in start["losses"]["queues"]}
