"""The queues of delayed, half and timer messages get their entry in topics.json before a broker delivers to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.formats.topics import HALF_TOPIC, ROCKSDB_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from store.structures.tables.fastjson import member, members, parse_fastjson
from tests.cli.running import rmqctl
from tests.engine.services.stores import Builder, build

pytestmark = pytest.mark.leaves_damage
"""Some messages of the schedule topic can't be delivered."""


def waiting(builder: Builder) -> None:
    """One message of topic T, and messages that wait or can't be delivered."""
    builder.put("T", {})
    builder.put("T", {"REAL_TOPIC": "OfAProducer", "REAL_QID": "0"})
    builder.delay("again")
    builder.schedule(3, {"REAL_TOPIC": "Later", "REAL_QID": "2"})
    builder.schedule(3, {"REAL_TOPIC": "Later", "REAL_QID": "5"})
    builder.schedule(4, {"REAL_TOPIC": "%RETRY%readers", "REAL_QID": "0"})
    for properties in ({"REAL_QID": "0"}, {"REAL_TOPIC": "NoQueue"}, {"REAL_TOPIC": "NoNumber", "REAL_QID": "x"},
                       {"REAL_TOPIC": "Below", "REAL_QID": "-1"}, {"REAL_TOPIC": "a/b", "REAL_QID": "0"},
                       {"REAL_TOPIC": HALF_TOPIC, "REAL_QID": "0"}):  # fmt: skip
        builder.schedule(5, properties)
    builder.half("pay")
    builder.put(TIMER_TOPIC, {"REAL_TOPIC": "Timed", "REAL_QID": "0", "TIMER_OUT_MS": "1800000000000"})
    builder.put(ROCKSDB_HALF_TOPIC, {"REAL_TOPIC": "PayToo", "REAL_QID": "3", "PGROUP": "PG"})
    builder.put("S" * len(SCHEDULE_TOPIC), {"REAL_TOPIC": "OfAProducer", "REAL_QID": "0"})


COUNTS = {
    "%RETRY%readers": 1,
    "Later": 6,
    "Pay": 2,
    "PayToo": 4,
    "S" * len(SCHEDULE_TOPIC): 1,
    "T": 1,
    "Timed": 1,
}


@pytest.mark.parametrize("words", [("rebuild", "topics", "--yes"), ("salvage",), ("salvage", "--keep-offsets")])
def test_a_new_table_has_the_queues_of_messages_that_wait(words: tuple[str, ...], tmp_path: Path) -> None:
    root = build(tmp_path / "store", waiting)
    target = tmp_path / "new" if words[0] == "salvage" else root
    run = rmqctl(*words, *(("--to", target) if target != root else ()), store=root)
    assert run.code == 0, run.err
    table = members(parse_fastjson((target / "config/topics.json").read_text())["topicConfigTable"])
    assert {topic: member(entry, "writeQueueNums") for topic, entry in table.items()} == COUNTS
    assert {topic: member(entry, "readQueueNums") for topic, entry in table.items()} == COUNTS


@pytest.mark.turns(3)
@pytest.mark.parametrize("options", [(), ("--bump", "3")])
def test_a_restore_without_a_table_registers_the_queues_of_messages_that_wait(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    root = build(tmp_path / "store", waiting)
    assert rmqctl("backup", "create", tmp_path / "backups", store=root).code == 0
    run = rmqctl("backup", "restore", tmp_path / "backups", *options, "--to", tmp_path / "new")
    assert run.code == 0, run.err
    table = members(parse_fastjson((tmp_path / "new/config/topics.json").read_text())["topicConfigTable"])
    assert {topic: member(entry, "writeQueueNums") for topic, entry in table.items()} == COUNTS


@pytest.mark.parametrize("words", [("rebuild", "topics", "--yes"), ("salvage",)])
def test_a_known_topic_is_widened_for_a_message_that_waits(words: tuple[str, ...], tmp_path: Path) -> None:
    topics = {"topicConfigTable": {"Later": {"topicName": "Later", "perm": 4, "writeQueueNums": 2}}}
    root = build(tmp_path / "store", waiting, {"topics.json": topics})
    target = tmp_path / "new" if words[0] == "salvage" else root
    assert rmqctl(*words, *(("--to", target) if target != root else ()), store=root).code == 0
    table = members(parse_fastjson((target / "config/topics.json").read_text())["topicConfigTable"])
    assert table["Later"] == {"topicName": "Later", "perm": 4, "readQueueNums": 6, "writeQueueNums": 6}
