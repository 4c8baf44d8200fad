"""A simulated start foretells what the real store said of each damage that was done to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import rmqctl
from tests.five.stores import copy_of_five, damage, lines

CASES = lines("bcq", "damaged.jsonl")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["damage"]["name"])
def test_whether_a_broker_starts_and_where_its_log_ends_is_foretold(case: dict[str, Any], tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
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
