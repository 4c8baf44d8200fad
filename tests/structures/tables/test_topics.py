"""The table of topics: attributes (5.x)."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.broker_line import LINE_5_3
from store.files.filesystem import Filesystem
from store.formats.message import INNER_BATCH
from store.formats.properties import INNER_BASE, INNER_NUM
from store.formats.run import Run
from store.structures.tables.topics import (
    deleted_topics,
    rebuild_topics,
    record_attributes,
    refused_attributes,
    without_attribute,
)
from tests.support.small_log import SmallLog


def test_a_table_without_an_attribute_keeps_all_else() -> None:
    kinds = {"A": {"queue.type": "BatchCQ", "other": "x"}, "B": {"queue.type": "SimpleCQ"}, "C": {"other": "y"}}
    entries = {name: {"topicName": name, "attributes": kind} for name, kind in kinds.items()}
    document = {"topicConfigTable": {**entries, "D": {"topicName": "D"}}, "dataVersion": {"counter": 1}}
    wanted = {
        "A": {"topicName": "A", "attributes": {"other": "x"}}, "B": {"topicName": "B", "attributes": {}},
        "C": entries["C"], "D": {"topicName": "D"},
    }  # fmt: skip
    assert without_attribute(document, "queue.type") == ({**document, "topicConfigTable": wanted}, ["A", "B"])
    assert document["topicConfigTable"] == {**entries, "D": {"topicName": "D"}}


def test_topics_are_rebuilt_in_order_with_as_many_queues_as_there_are() -> None:
    queues = [("C", 1), ("A", 0), ("C", 4), ("B", 2), ("%LMQ%a", 0), ("D", -1)]
    found = rebuild_topics(queues, None, LINE_5_3, 7)
    assert [(one.topic, one.queue_count, one.origin) for one in found.entries] == [
        ("A", 1, "found in the store"),
        ("B", 3, "found in the store"),
        ("C", 5, "found in the store"),
    ]
    table = json.loads(found.text)["topicConfigTable"]
    assert list(table) == ["A", "B", "C"]
    assert [(entry["readQueueNums"], entry["writeQueueNums"]) for entry in table.values()] == [(1, 1), (3, 3), (5, 5)]


def test_topics_of_a_copy_are_kept_widened_or_get_an_attribute() -> None:
    kept = {"A": {"perm": 4}, "B": {"writeQueueNums": 4, "order": True}, "C": {"writeQueueNums": 2}, "D": {}}
    copy: Any = SimpleNamespace(document={"topicConfigTable": kept, "dataVersion": {"counter": 5, "timestamp": 1}})
    queues = [("B", 1), ("C", 3), ("D", 0), ("TBW102", 0)]
    batch = {"queue.type": "BatchCQ"}
    found = rebuild_topics(queues, copy, LINE_5_3, 7, {"B": batch, "A": batch})
    assert [(one.topic, one.queue_count, one.origin) for one in found.entries] == [
        ("A", 0, "kept"), ("B", 4, "its files need an attribute"), ("C", 4, "more queues exist"),
        ("D", 1, "more queues exist"),
    ]  # fmt: skip
    assert json.loads(found.text) == {
        "dataVersion": {"counter": 6, "stateVersion": 0, "timestamp": 7},
        "topicConfigTable": {
            "A": {"perm": 4},
            "B": {"writeQueueNums": 4, "order": True, "attributes": batch},
            "C": {"readQueueNums": 4, "writeQueueNums": 4},
            "D": {"readQueueNums": 1, "writeQueueNums": 1},
        },
    }


@pytest.mark.parametrize("is_grouped", [False, True])
def test_records_of_several_messages_need_a_batch_queue(is_grouped: bool) -> None:
    log = SmallLog()
    log.put("T", 0, sys_flag=INNER_BATCH * is_grouped, **{INNER_BASE: "0", INNER_NUM: "2"})
    runs: list[Run] = []
    log.dispatch_to(cast(Any, SimpleNamespace(dispatch=runs.append)), start=0)
    assert record_attributes(runs[0]) == ({"T": {"queue.type": "BatchCQ"}} if is_grouped else {})


@pytest.mark.parametrize(
    ("table", "deleted"),
    [
        (None, set()),
        ({"A": {}}, {"B"}),
        ({"A": {}, "B": {}}, set()),
        ({}, {"A", "B"}),
    ],
)
def test_topics_that_the_table_lacks_were_deleted_but_for_the_brokers_own(
    table: dict[str, object] | None, deleted: set[str], tmp_path: Path
) -> None:
    if table is not None:
        (tmp_path / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    own = ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_REVIVE_LOG_c", "TBW102"]
    assert deleted_topics(tmp_path, Filesystem(), ["A", "B", *own]) == deleted
    assert refused_attributes(tmp_path, Filesystem()) == {}
