"""Counts by topic and group: the rings of minute, hour and day, by an injected clock."""

from __future__ import annotations

import pytest

from store.config import LINE_5_3
from store.stats.broker_stats import CLUSTER, BrokerStatsManager, StatsReport
from tests.support.stores import Clock

STEP_MS = {"minute": 10_000, "hour": 600_000, "day": 3_600_000}


@pytest.mark.parametrize(("ring", "kept"), [("minute", 6), ("hour", 6), ("day", 24)])
def test_a_ring_covers_its_newest_intervals(ring: str, kept: int) -> None:
    clock = Clock()
    stats = BrokerStatsManager(clock)
    for _ in range(kept + 10):
        clock.now_ms += STEP_MS[ring]
        stats.note_put("T", 0, 3, 300)
        stats.sample(ring)
    report = stats.report("TOPIC_PUT_NUMS", "T", ring)
    assert report.sum == 3 * kept
    assert report.tps == pytest.approx(3 * 1000 / STEP_MS[ring])
    assert report.average == 3.0


def test_an_empty_ring_begins_with_zeros_one_interval_before() -> None:
    stats = BrokerStatsManager(Clock())
    stats.note_put("T", 0, 20, 100)
    assert stats.report("TOPIC_PUT_NUMS", "T") == StatsReport(0, 0.0, 0.0)
    stats.sample("minute")
    assert stats.report("TOPIC_PUT_NUMS", "T") == StatsReport(20, 2.0, 20.0)


def test_the_keys_are_those_of_the_broker() -> None:
    stats = BrokerStatsManager(Clock())
    stats.note_put("T", 3, 1, 100)
    stats.note_get("G", "T", 3, 2, 200)
    stats.note_get_latency("G", "T", 3, 7)
    stats.note_fall_behind("G", "T", 3, behind_bytes=9, behind_ms=8)
    assert {(name, key): item.value for name, key, item in stats.items()} == {
        ("TOPIC_PUT_NUMS", "T"): 1,
        ("TOPIC_PUT_SIZE", "T"): 100,
        ("QUEUE_PUT_NUMS", "T@3"): 1,
        ("QUEUE_PUT_SIZE", "T@3"): 100,
        ("BROKER_PUT_NUMS", CLUSTER): 1,
        ("GROUP_GET_NUMS", "T@G"): 2,
        ("GROUP_GET_SIZE", "T@G"): 200,
        ("QUEUE_GET_NUMS", "T@3@G"): 2,
        ("QUEUE_GET_SIZE", "T@3@G"): 200,
        ("BROKER_GET_NUMS", CLUSTER): 2,
        ("GROUP_GET_LATENCY", "3@T@G"): 7,
    }
    assert stats.moments() == [("GROUP_GET_FALL_SIZE", "3@T@G", 9), ("GROUP_GET_FALL_TIME", "3@T@G", 8)]


def test_5_3_has_the_time_of_puts_and_counts_without_system_topics() -> None:
    stats = BrokerStatsManager(Clock(), LINE_5_3)
    for topic in ("T", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"):
        stats.note_put(topic, 3, 1, 100, 7)
        stats.note_get("G", topic, 3, 2, 200)
    found = {(name, key): item.value for name, key, item in stats.items()}
    assert (found["BROKER_PUT_NUMS", CLUSTER], found["BROKER_GET_NUMS", CLUSTER]) == (3, 6)
    assert found["BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", CLUSTER] == 1
    assert found["BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", CLUSTER] == 2
    assert found["TOPIC_PUT_LATENCY", "3@T"] == 7


def test_the_average_of_a_brokers_item_is_zero_for_its_times_are_not_counted() -> None:
    stats = BrokerStatsManager(Clock())
    stats.note_put("T", 0, 5, 100)
    stats.sample("minute")
    assert stats.report("BROKER_PUT_NUMS", CLUSTER) == StatsReport(5, 0.5, 0.0)
