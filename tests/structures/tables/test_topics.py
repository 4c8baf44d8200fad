"""The table of topics: attributes (5.x)."""

from __future__ import annotations

import json

from store.broker_line import LINE_5_3
from store.structures.tables.topics import rebuild_topics, without_attribute


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
