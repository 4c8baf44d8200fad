"""The queues of a store: what closing them leaves."""

from __future__ import annotations

from pathlib import Path

from store import Message, open_store


def test_closed_queues_hold_no_file(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", read_only=False, services=[]) as store:
        for queue_id in range(2):
            store.put(Message.of("T", "x", queue_id=queue_id))
        store.catch_up()
        queues = store.opened.queues
        awake = list(queues.awake())
        assert [(one.topic, one.queue_id, len(one.files.files)) for one in awake] == [("T", 0, 1), ("T", 1, 1)]
        queues.close()
        assert [len(one.files.files) for one in awake] == [0, 0]


def test_readable_queues_come_by_topic_and_then_by_number(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", read_only=False, services=[]) as store:
        for topic, queue_id in [("b", 0), ("a", 10), ("b", 1), ("a", 2)]:
            store.put(Message.of(topic, "x", queue_id=queue_id))
        store.catch_up()
        names = [(one.topic, one.queue_id) for one in store.opened.queues]
    assert names == [("a", 2), ("a", 10), ("b", 0), ("b", 1)]
