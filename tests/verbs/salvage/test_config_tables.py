"""A salvaged store has the tables that a start reads, fitted to its queues."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.layout import OWN_FOLDER, StoreLayout
from store.structures.tables.fastjson import parse_fastjson
from store.structures.timer.files import SLOT_DTYPE, read_timer_files
from store.verbs.queue_ends import queue_ends
from store.verbs.salvage import config_tables
from store.verbs.salvage.config_tables import ConfigTables
from tests.cli.running import rmqctl
from tests.conftest import CopyOf
from tests.engine.services.stores import show, unpack
from tests.support.five_stores import copy_of_five

TOPICS = {"dataVersion": {"counter": 7, "timestamp": 1}, "topicConfigTable": {}}
GROUPS = {"subscriptionGroupTable": {"readers": {"groupName": "readers", "retryMaxTimes": 3}}}
OFFSETS = {"offsetTable": {"TopicA@readers": {"0": 99999, "1": 5, "2": -1}, "Gone@readers": {"0": 12}}}


def write_tables(root: Path, **tables: Any) -> None:
    (root / "config").mkdir(exist_ok=True)
    for name, value in tables.items():
        text = value if isinstance(value, str) else json.dumps(value)
        (root / "config" / name.replace("_json", ".json").replace("_bak", ".bak")).write_text(text)


def salvaged(root: Path, target: Path, *words: object) -> dict[str, tuple[str, str]]:
    """What was brought: where from, and what is said of it."""
    run = rmqctl("--format", "json", "salvage", "--to", target, *words, store=root)
    assert run.code == 0, run.err
    return {row["file"]: (row["copied_from"], row["remark"]) for row in run.json["brought"]}


def table(root: Path, name: str) -> Any:
    return parse_fastjson((root / "config" / name).read_text())


@pytest.fixture
def source(copy_of: CopyOf) -> Path:
    _, root = copy_of("normal")
    shutil.rmtree(root / "config", ignore_errors=True)
    return root


@pytest.mark.parametrize("words", [(), ("--keep-offsets",)])
def test_whole_tables_are_brought_and_offsets_moved_into_the_queues(
    source: Path, words: tuple[str, ...], tmp_path: Path
) -> None:
    write_tables(source, subscriptionGroup_json=GROUPS, consumerOffset_json=OFFSETS)
    brought = salvaged(source, tmp_path / "new", *words)
    ends = {(one.topic, one.queue_id): one.max_offset for one in queue_ends(StoreReader(str(tmp_path / "new")))}
    end = ends["TopicA", 0]
    assert table(tmp_path / "new", "subscriptionGroup.json") == GROUPS
    assert table(tmp_path / "new", "consumerOffset.json") == {
        "offsetTable": {"TopicA@readers": {"0": end, "1": 5, "2": -1}, "Gone@readers": {"0": 0}}
    }
    moved = f"readers from 99999 to {end} of TopicA/0, readers from 12 to 0 of Gone/0"
    assert brought["config/consumerOffset.json"] == (
        "consumerOffset.json",
        f"2 offsets moved into the queues: {moved}",
    )


def test_topics_that_no_table_names_are_found_in_the_queues(source: Path, tmp_path: Path) -> None:
    salvaged(source, tmp_path / "new")
    queues = {one.name for one in (tmp_path / "new/consumequeue").iterdir()}
    assert queues - {"SCHEDULE_TOPIC_XXXX"} == set(table(tmp_path / "new", "topics.json")["topicConfigTable"])
    assert rmqctl("config", "check", store=tmp_path / "new").code == 0


def test_a_torn_table_is_brought_from_its_bak_and_one_without_is_named(source: Path, tmp_path: Path) -> None:
    write_tables(
        source, subscriptionGroup_json='{"subscr', subscriptionGroup_json_bak=GROUPS, consumerFilter_json='{"filt'
    )
    brought = salvaged(source, tmp_path / "new")
    assert brought["config/subscriptionGroup.json"] == (
        "subscriptionGroup.json.bak",
        "subscriptionGroup.json is damaged",
    )
    assert table(tmp_path / "new", "subscriptionGroup.json") == GROUPS
    assert brought["config/consumerFilter.json"][0] == ""
    assert not (tmp_path / "new/config/consumerFilter.json").exists()
    run = rmqctl("salvage", "--to", tmp_path / "other", store=source)
    assert "config/consumerFilter.json was not copied: consumerFilter.json is damaged" in run.err


def test_files_of_no_known_meaning_are_named_and_left(source: Path, tmp_path: Path) -> None:
    write_tables(source, other_json="{}")
    inner = "config/plugin/inner/deep.txt"
    (source / inner).parent.mkdir(parents=True)
    (source / inner).write_text("deep")
    (source / "brokerIdentity").write_text("me")
    (source / "transRocksDB").mkdir()
    (source / "dledger-n0").mkdir()
    brought = salvaged(source, tmp_path / "new")
    assert (tmp_path / "new" / inner).read_text() == "deep"
    assert brought.keys() == {
        "config/other.json",
        "config/plugin",
        "config/topics.json",
        "brokerIdentity",
        "transRocksDB",
    }
    assert (tmp_path / "new/config/other.json").read_text() == "{}"
    assert (tmp_path / "new/brokerIdentity").read_text() == "me"
    assert brought["transRocksDB"] == ("", "its contents are unknown; it may hold log offsets of the old log")


def test_delivered_messages_are_not_delivered_again_where_the_offsets_are_lost(tmp_path: Path) -> None:
    source, _ = unpack("services-aborted", tmp_path)
    (source / "config/delayOffset.json").unlink(missing_ok=True)
    assert show(source, "delay", "show", code=1)["counts"]["duplicate"] > 0
    brought = salvaged(source, tmp_path / "new")
    assert brought["config/delayOffset.json"] == ("the log", "past what was delivered: level 1 at 5, level 2 at 3")
    assert show(tmp_path / "new", "delay", "show")["counts"]["duplicate"] == 0
    assert not [*(tmp_path / "new").glob(".rmqctl/quarantine/*")]


def test_a_store_of_5_3_stays_one(tmp_path: Path) -> None:
    source = copy_of_five("timer", tmp_path)
    salvaged(source, tmp_path / "new")
    assert not [*(tmp_path / "new").glob(".rmqctl/quarantine/*")]
    assert rmqctl("--format", "json", "info", store=tmp_path / "new").json["compat"] == "5.3"
    assert rmqctl("check", store=tmp_path / "new").code == 0


def timer_of(root: Path) -> tuple[set[int], int]:
    """The sizes of the timer's log files, and its milliseconds per slot."""
    files = read_timer_files(StoreLayout(root), Filesystem(), StoreConfig())
    return set(files.log_files.values()), files.precision_ms


@pytest.mark.parametrize(
    ("name", "words", "size"),
    [("timer", (), 1100), ("timer-roll", (), 600), ("timer-aborted", ("--set", "mappedFileSizeTimerLog=2080"), 2080)],
)
def test_the_timers_files_are_for_the_settings_of_the_old_store(
    name: str, words: tuple[str, ...], size: int, tmp_path: Path
) -> None:
    source = copy_of_five(name, tmp_path)
    if words:
        shutil.rmtree(source / "timerlog")
    with (source / "timerwheel").open("r+b") as file:
        wheel = np.frombuffer(file.read(), SLOT_DTYPE).copy()
        wheel["time"] *= 10
        file.seek(0)
        file.write(wheel.tobytes())
    told = "a slot of timerwheel has 100 ms: a broker needs timerPrecisionMs=100"
    assert told in rmqctl(*words, "salvage", "--to", tmp_path / "new", store=source).err
    assert timer_of(tmp_path / "new") == ({size}, 100)
    assert rmqctl("backup", "create", tmp_path / "backups", *words, store=source).code in (0, 1)
    run = rmqctl("backup", "restore", tmp_path / "backups", "--to", tmp_path / "restored")
    assert (run.code in (0, 1), told in run.err) == (True, True)
    assert timer_of(tmp_path / "restored") == ({size}, 100)


@pytest.mark.parametrize("make", ["single", "separate", "second_generation"])
def test_tables_of_a_database_become_json_files_and_no_stale_database_stays_beside_them(
    make: str, source: Path, tmp_path: Path
) -> None:
    pytest.importorskip("rocksdict")
    from tests.support import table_databases

    getattr(table_databases, make)(source / "config")
    told = {"config/rdb": ("rdb", "its tables are JSON files now: start with configManagerVersion=v1")}
    told = told if make == "second_generation" else {}
    brought = salvaged(source, tmp_path / "new")
    assert {name: row for name, row in brought.items() if not name.endswith(".json")} == told
    assert rmqctl("backup", "create", tmp_path / "backups", store=source).code == 0
    run = rmqctl("--format", "json", "backup", "restore", tmp_path / "backups", "--to", tmp_path / "restored")
    assert {row["file"] for row in run.json["tables"] if not row["file"].endswith(".json")} == set(told)
    for root in (tmp_path / "new", tmp_path / "restored"):
        names = {one.name for one in (root / "config").iterdir()}
        assert names == {"topics.json", "subscriptionGroup.json", "consumerOffset.json"}
        assert table(root, "consumerOffset.json")["offsetTable"] == {"Orders@billing": {"0": 0, "1": 0}}


LOG, UNITS = (f"compaction/compaction{tree}/CompB/0/{0:020d}" for tree in ("Log", "Cq"))


@pytest.mark.parametrize(
    ("damage", "mended"),
    [
        (lambda root: (root / UNITS).unlink(), f"1 file mended: {UNITS} (made from the records of the same name)"),
        (lambda root: shutil.copy(root / LOG, root / f"{LOG}.delete"),
         f"1 file mended: {LOG}.delete (a run that was cut short had set it aside)"),
        (lambda root: os.truncate(root / UNITS, 46),
         f"1 file mended: {UNITS} (made from the records of the same name)"),
        (lambda root: None, ""),
    ],
)  # fmt: skip
def test_a_broken_compaction_store_is_mended_in_the_new_store_and_a_broker_starts_on_it(
    damage: Callable[[Path], Any], mended: str, tmp_path: Path
) -> None:
    source, new = copy_of_five("compaction", tmp_path), tmp_path / "new"
    units = (source / UNITS).read_bytes()
    damage(source)
    assert salvaged(source, new)["compaction"] == ("compaction", mended)
    assert (new / UNITS).read_bytes() == units
    assert rmqctl("doctor", store=new).code == 0
    assert not (new / OWN_FOLDER).exists()


ATTRIBUTES = {"queue.type": "BatchCQ", "cleanup.policy": "COMPACTION"}


@pytest.mark.parametrize(
    ("line", "only_known", "are_queues_simple", "left"),
    [
        (LINE_5_3, False, False, []),
        (LINE_5_3, True, False, []),
        (LINE_5_3, False, True, ["queue.type"]),
        (LINE_4_9, False, False, []),
        (LINE_4_9, True, False, ["queue.type", "cleanup.policy"]),
    ],
)
def test_attributes_that_the_new_store_has_no_files_for_are_left_out(
    line: BrokerLine, only_known: bool, are_queues_simple: bool, left: list[str], tmp_path: Path
) -> None:
    topics = {"topicConfigTable": {"T": {"topicName": "T", "attributes": ATTRIBUTES}, "U": {"topicName": "U"}}}
    write_tables(tmp_path, topics_json=topics)
    tables = ConfigTables(None, StoreLayout(tmp_path), line, StoreConfig(), Filesystem(), only_known=only_known)
    tables.are_queues_simple = are_queues_simple
    tables._leave_attributes()
    kept = table(tmp_path, "topics.json")["topicConfigTable"]["T"]["attributes"]
    assert kept == {name: value for name, value in ATTRIBUTES.items() if name not in left}
    remark = "; ".join(f"{name} is left out of T" for name in left)
    assert [(one.file, one.remark) for one in tables.rows] == ([("config/topics.json", remark)] if left else [])


ENDS, JUMPS = {("T", 0): (10, 20)}, {("T", 0): (15, 18)}


@pytest.mark.parametrize(
    ("offset", "fitted"),
    [(-1, -1), (0, 10), (9, 10), (10, 10), (14, 14), (15, 18), (16, 18), (20, 18), (21, 18), ("7", "7")],
)
def test_an_offset_is_moved_into_its_queue_and_over_the_jump(offset: Any, fitted: Any, tmp_path: Path) -> None:
    write_tables(tmp_path, consumerOffset_json={"offsetTable": {"T@g": {"0": offset}, "U@g": {"0": -1}}})
    tables = ConfigTables(None, StoreLayout(tmp_path), LINE_4_9, StoreConfig(), Filesystem())
    tables._move_offsets("consumerOffset.json", ENDS, JUMPS)
    assert table(tmp_path, "consumerOffset.json") == {"offsetTable": {"T@g": {"0": fitted}, "U@g": {"0": -1}}}
    moved = f"1 offset moved into the queues: g from {offset} to {fitted} of T/0"
    rows = [("config/consumerOffset.json", moved)] if fitted != offset else []
    assert [(one.file, one.remark) for one in tables.rows] == rows


NO_READER = "a 4.9 broker does not read it"
UNKNOWN_TO_ALL = "its contents are unknown; it may hold log offsets of the old log"


@pytest.mark.parametrize(
    ("is_known", "newer", "room", "is_left", "told"),
    [
        (False, "", None, False, UNKNOWN_TO_ALL),
        (False, "", None, True, UNKNOWN_TO_ALL),
        (True, "5.9", "its keys", False, UNKNOWN_TO_ALL),
        (True, "", None, False, ""),
        (True, "", None, True, NO_READER),
        (True, "", "", False, ""),
        (True, "", "", True, ""),
        (True, "", "its keys", False, "its keys"),
        (True, "", "its keys", True, NO_READER),
    ],
)
def test_what_is_left_is_told_with_the_reason(
    is_known: bool, newer: str, room: str | None, is_left: bool, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    furniture = None if room is None else SimpleNamespace(describe_left=lambda source, fs: room)
    structure = SimpleNamespace(newer=newer, furniture=lambda kind: furniture if kind == "leave" else pytest.fail(kind))
    monkeypatch.setattr(config_tables, "structure_of", lambda name: structure if is_known else None)
    tables: Any = SimpleNamespace(line="4.9", _fs=None, _is_of_others=lambda name: is_left)
    assert ConfigTables._describe_left(tables, "name", StoreLayout(Path("old"))) == told
