"""A command that makes its answer of the whole log names the damage that it passes over, and ends with 1."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.stores import make_store

LOG = f"{0:020d}"
COMMANDS = [
    ["sql", "select count(*) from messages"],
    ["export", "--as", "jsonl", "--to", "-"],
    ["usage"],
    ["timeline"],
    ["find", "--scan", "k5"],
    ["find", "--where", "queue_offset = 1"],
]
MAGIC, HEAD = slice(4, 8), slice(0, 8)
"""The zeroed bytes of the second record."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("sound") / "store", 20)


@pytest.fixture(scope="module", params=[MAGIC, HEAD], ids=["magic", "head"])
def damaged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return damage_second_record(make_store(tmp_path_factory.mktemp("damaged") / "store", 20), request.param)


def damage_second_record(root: Path, zeroed: slice = MAGIC) -> Path:
    path = root / "commitlog" / LOG
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:4], "big")
    data[size + zeroed.start : size + zeroed.stop] = bytes(zeroed.stop - zeroed.start)
    path.write_bytes(data)
    return root


@pytest.mark.turns(2)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_damage_in_the_log_is_named_where_rows_are_left_out(words: Sequence[str], damaged: Path, sound: Path) -> None:
    run = rmqctl(*words, store=damaged)
    assert run.code == 1
    assert re.search(rf"{LOG}, offset (\d+): .*\(up to offset (\d+)\); messages there are left out", run.err)
    whole = rmqctl(*words, store=sound)
    assert (whole.code, "left out" in whole.err) == (0, False)
    assert (run.out == whole.out) == ("find" in words)


def test_topics_are_rebuilt_from_records_after_a_zeroed_head_too(tmp_path: Path) -> None:
    root = damage_second_record(make_store(tmp_path / "store", 20), HEAD)
    shutil.rmtree(root / "consumequeue")
    run = rmqctl("rebuild", "topics", "--yes", "--format", "json", store=root)
    assert run.code == 1
    assert f"{LOG}, offset " in run.err
    assert [topic["topic"] for topic in run.json["topics"]] == ["T"]


def test_damage_is_named_where_a_lost_queue_is_built_from_the_log(tmp_path: Path) -> None:
    root = damage_second_record(make_store(tmp_path / "store", 400))
    shutil.rmtree(root / "consumequeue")
    run = rmqctl("get", "T", "--queue", "1", "--offset", "0", store=root)
    assert run.code == 1
    assert f"passed over while queues were built from the log: {LOG}, offset " in run.err


@pytest.mark.slow
@pytest.mark.spark
def test_damage_that_tasks_of_spark_pass_over_is_named(damaged: Path) -> None:
    run = rmqctl("sql", "select count(*) from messages", "--engine", "spark", store=damaged)
    assert (run.code, f"{LOG}, offset " in run.err, "messages there are left out" in run.err) == (1, True, True)


def test_the_table_of_damage_names_it_itself(damaged: Path) -> None:
    run = rmqctl("sql", "select kind from anomalies", store=damaged)
    assert (run.code, "left out" in run.err) == (0, False)
