"""The table of topics: attributes (5.x)."""

from __future__ import annotations

from store.structures.tables.topics import without_attribute


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
