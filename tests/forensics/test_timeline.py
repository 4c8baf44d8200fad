"""The log over time."""

from __future__ import annotations

from store.disk.store_reader import StoreReader
from store.forensics.timeline import Timeline, build_timeline
from store.open import open_store
from tests.support.golden import golden


def timeline(name: str, unit: str = "second", topic: str | None = None, gap_ms: int = 3_600_000) -> Timeline:
    return build_timeline(StoreReader(str(golden(name).store)), unit, topic, gap_ms)


def test_every_message_is_in_the_bucket_of_its_store_time() -> None:
    found = timeline("many")
    with open_store(golden("many").store) as store:
        for start, messages, size in found.rows():
            assert messages > 0 < size
            assert start % 1000 == 0
        assert sum(found.messages.values()) >= sum(one.max_offset - one.min_offset for one in store.queues())


def test_a_topic_is_counted_alone() -> None:
    whole, alone = timeline("normal"), timeline("normal", topic="TopicA")
    assert 0 < sum(alone.messages.values()) < sum(whole.messages.values())
    assert not timeline("normal", topic="Nothing").messages


def test_pauses_longer_than_the_gap_are_named() -> None:
    found = timeline("many", gap_ms=500)
    assert found.jump_count == len(found.jumps)
    assert [(jump.kind, jump.after_ms - jump.before_ms) for jump in found.jumps] == [("pause", 4501)] * 2


def test_the_last_seconds_are_counted_one_by_one() -> None:
    found = timeline("many", "day")
    assert len(found.messages) == 1 < len(found.last_seconds) <= 10
