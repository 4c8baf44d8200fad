"""A simulated start foretells what the real store said of each damage that was done to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from store import check, open_store
from tests.cli.running import rmqctl
from tests.support.five_stores import copy_of_five, damage, five, lines

SIZES = ("--set", "mappedFileSizeConsumeQueue=400")
SETTINGS = {
    "bcq": ("--set", "mapperFileSizeBatchConsumeQueue=552", *SIZES),
    "lmq": ("--set", "enableLmq=true", "--set", "enableMultiDispatch=true", *SIZES),
    "rocksdb": ("--set", "storeType=defaultRocksDB", "--set", "enableLmq=true"),
    "dledger": SIZES,
}
NAMES = ("bcq", "compaction", "dledger", "lmq", "rocksdb", "timer")
CASES = [(name, case) for name in NAMES for case in lines(name, "damaged.jsonl")]
HARMLESS = {"nothing", "abort left"}
DISPATCHED_ANEW = {"all queues removed", "all queues removed, abort left", "queues removed, abort left"}
TRAPS = {
    "batch queues removed": {"record-at-queue-end", "lost-queue"},
    "last unit of BatchA/0 zero": {"lost-queue"},
    "last file of BatchA/0 removed": {"lost-queue"},
    "comp and n of the first unit of the last file zero": {"lost-queue"},
    "one LMQ removed": {"lost-queue"},
    "queues removed": {"record-at-queue-end", "dledger-no-dispatch", "lost-queue"},
    "checkpoint of dledger removed": {"dledger-uncommitted"},
    "wheel removed": {"timer-wheel-lost"},
    "timercheck removed": {"timer-check-lost"},
    "timercheck zero": {"timer-check-lost"},
    "timerlog removed": {"timer-log-lost"},
    "all three removed": {"timer-check-lost"},
}


def simulated(name: str, case: dict[str, Any], tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A damaged copy, and its next start."""
    root = copy_of_five(name, tmp_path)
    damage(root, case["damage"])
    run = rmqctl("--format", "json", *SETTINGS.get(name, ()), "simulate", "--compat", "5.3", store=root)
    [start] = run.json["outcomes"]
    return root, start


def named(pair: tuple[str, dict[str, Any]]) -> str:
    return f"{pair[0]}: {pair[1]['damage']['name']}"


@pytest.mark.turns(6)
@pytest.mark.parametrize("pair", CASES, ids=named)
def test_start_end_and_traps_are_foretold_and_the_damage_is_named_by_check(
    pair: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    name, case = pair
    root, start = simulated(name, case, tmp_path)
    said, what = case["loadOnly"], case["damage"]["name"]
    assert start["starts"] == said["storeLoad"]
    traps = {trap["name"] for trap in start["traps"]}
    if start["starts"]:
        assert traps <= TRAPS.get(what, set())
        assert bool(traps) == (what in TRAPS)
        assert start["log_end"] == said["maxPhyOffset"]
    assert all(trap["remedy"] for trap in start["traps"])
    found = rmqctl("--format", "json", *SETTINGS.get(name, ()), "check", store=root).json["findings"]
    assert bool(found) == (what not in HARMLESS)


@pytest.mark.turns(2)
@pytest.mark.parametrize("case", lines("bcq", "damaged.jsonl"), ids=lambda case: case["damage"]["name"])
def test_each_damage_is_named_by_doctor(case: dict[str, Any], tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    damage(root, case["damage"])
    run = rmqctl("--format", "json", "doctor", store=root)
    assert (run.code, run.json["worst_rank"] <= 3) == (1, True)


BLOCKERS = [
    ("timer", {"truncate": ("timerwheel", 32)}, "timerwheel: 32 bytes instead of 38707200"),
    ("timer", {"truncate": ("timerlog/00000000000000000000", 52)}, "timerlog/00000000000000000000: 52 bytes"),
    ("timer", {"write": ("epochFileCheckpoint", b"")}, "epochFileCheckpoint is empty or torn"),
    ("compaction", {"truncate": ("compaction/compactionLog/CompB/0/00000000000000000000", 9)}, "9 bytes instead of"),
    ("rocksdb", {"write": ("consumequeue/CURRENT", b"?")}, "RocksDB can't read the consume queues"),
    ("dledger", {"truncate": ("dledger-n0/index/00000000000000000000", 320)}, "320 bytes instead of 167772160"),
    ("bcq", {"truncate": ("commitlog/00000000000000065536", 0)}, "0 bytes instead of 65536"),
]


@pytest.mark.turns(2)
@pytest.mark.parametrize(("name", "how", "reason"), BLOCKERS)
def test_what_keeps_a_broker_from_starting_is_foretold_and_named_by_doctor(
    name: str, how: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    root = copy_of_five(name, tmp_path)
    for path, size in [how["truncate"]] if "truncate" in how else []:
        with (root / path).open("r+b") as file:
            file.truncate(size)
    for path, data in [how["write"]] if "write" in how else []:
        (root / path).write_bytes(data)
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert not start["starts"]
    assert reason in start["reason"]
    found = rmqctl("--format", "json", "doctor", store=root).json
    assert found["worst_rank"] == 1
    assert any(reason in one["detail"] for one in found["diagnoses"])


@pytest.mark.parametrize(
    "file",
    ["consumequeue/PlainT/0/00000000000000001600", "batchconsumequeue/BatchA/0/" + "2208".zfill(20)],
)
def test_a_last_file_without_a_byte_keeps_no_5_3_broker_from_starting(file: str, tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    assert (root / file) == max((root / file).parent.iterdir())
    (root / file).write_bytes(b"")
    assert rmqctl("--format", "json", "simulate", store=root).json["outcomes"][0]["starts"]
    [found] = [one for one in check(root) if one.kind == "wrong-size"]
    assert "a 5.3 one deletes it" in found.detail
    ranks = {one["what"]: one["rank"] for one in rmqctl("--format", "json", "doctor", store=root).json["diagnoses"]}
    assert (ranks["wrong-size"], min(ranks.values())) == (3, 2)


@pytest.mark.parametrize(
    ("case", "units"), [("header of the last entry zero", 1), ("magic of an entry 40 before the end wrong", 36)]
)
def test_units_that_a_start_cuts_behind_the_entries_are_foretold(case: str, units: int, tmp_path: Path) -> None:
    damaged = next(one for one in lines("dledger", "damaged.jsonl") if one["damage"]["name"] == case)
    _, start = simulated("dledger", damaged, tmp_path)
    before = lines("dledger", "load-only.json")[0]["load"]["queues"]
    left = damaged["loadOnly"]["queues"]
    assert start["lost"]["units_cut"] == units == sum(one["max"] for one in before) - sum(one["max"] for one in left)
    assert all(one["topic"] for one in start["lost"]["queues"])


@pytest.mark.parametrize("name", ["bcq", "compaction", "dledger", "lmq", "lmq-poison1", "rocksdb", "timer"])
def test_a_sound_store_starts_without_a_trap(name: str) -> None:
    [start] = rmqctl("--format", "json", "simulate", store=five(name) / "store").json["outcomes"]
    assert (start["starts"], start["lost"]["messages"]) == (True, 0)
    assert [trap["name"] for trap in start["traps"]] == []


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
    assert start["lost"]["units_cut"] > 0
    assert {"RockA", "RockBee"} <= {row["topic"] for row in start["lost"]["queues"]}


QUEUE = "consumequeue/PlainT/0/00000000000000001600"
"""The last file of a queue, with three units."""


def test_rebuilding_one_queue_mends_the_gap_that_5_3_leaves_at_the_queues_end(tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    whole = (root / QUEUE).read_bytes()
    # Two units were lost: 5.3 passes over the first record, and dispatches the second one into its place.
    (root / QUEUE).write_bytes(whole[:20] + whole[40:60] + bytes(len(whole) - 40))
    found = [one for one in check(root) if (one.topic, one.queue_id) == ("PlainT", 0)]
    assert {"queue-shift", "missing-unit"} & {one.kind for one in found}
    assert rmqctl("rebuild", "--queues", "--topic", "PlainT", "--queue", "0", "--yes", store=root).code == 0
    assert (root / QUEUE).read_bytes() == whole
    assert list(check(root)) == []


def test_rebuilding_one_queue_mends_a_last_file_without_units(tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    whole = (root / QUEUE).read_bytes()
    (root / QUEUE).write_bytes(bytes(len(whole)))
    remedy = "rmqctl rebuild --queues --topic PlainT --queue 0"
    assert remedy in rmqctl("--format", "json", "simulate", "--compat", "5.3", store=root).out
    assert rmqctl("rebuild", "--queues", "--topic", "PlainT", "--queue", "0", "--yes", store=root).code == 0
    assert (root / QUEUE).read_bytes() == whole
    [start] = rmqctl("--format", "json", "simulate", "--compat", "5.3", store=root).json["outcomes"]
    assert (start["starts"], start["traps"]) == (True, [])
