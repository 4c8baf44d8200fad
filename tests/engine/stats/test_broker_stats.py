"""Counts by topic and group: the rings of minute, hour and day, by an injected clock."""

from __future__ import annotations

import pytest

from store.broker_line import LINE_5_3
from store.engine.stats.broker_stats import CLUSTER, BrokerStatsManager, StatsReport
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


@pytest.mark.parametrize("ring", STEP_MS)
def test_an_empty_ring_begins_with_zeros_one_interval_before(ring: str) -> None:
    stats = BrokerStatsManager(Clock())
    stats.note_put("T", 0, 20, 100)
    assert stats.report("TOPIC_PUT_NUMS", "T", ring) == StatsReport(0, 0.0, 0.0)
    stats.sample(ring)
    assert stats.report("TOPIC_PUT_NUMS", "T", ring) == StatsReport(20, 20 * 1000 / STEP_MS[ring], 20.0)


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


def test_two_topics_and_two_groups_are_counted_apart_and_listed_in_order() -> None:
    stats = BrokerStatsManager(Clock(), LINE_5_3)
    stats.note_put("U", 1, 2, 20, 3)
    stats.note_put("T", 0, 1, 10, 5)
    stats.note_put("T", 0, 4, 40, 6)
    for group, count in (("H", 3), ("G", 1), ("G", 1)):
        stats.note_get(group, "T", 0, count, 10 * count)
        stats.note_get_latency(group, "T", 0, count)
        stats.note_fall_behind(group, "T", 0, behind_bytes=count, behind_ms=2 * count)
    stats.note_get("S", "SCHEDULE_TOPIC_XXXX", 0, 7, 70, of_broker=False)
    stats.sample("minute")
    assert [(name, key, item.value, item.times, *item.report("minute")) for name, key, item in stats.items()] == [
        ("BROKER_GET_NUMS", CLUSTER, 5, 0, 5, 0.5, 0.0),
        ("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", CLUSTER, 5, 0, 5, 0.5, 0.0),
        ("BROKER_PUT_NUMS", CLUSTER, 7, 0, 7, 0.7, 0.0),
        ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", CLUSTER, 7, 0, 7, 0.7, 0.0),
        ("GROUP_GET_LATENCY", "0@T@G", 2, 2, 2, 0.2, 1.0),
        ("GROUP_GET_LATENCY", "0@T@H", 3, 1, 3, 0.3, 3.0),
        ("GROUP_GET_NUMS", "SCHEDULE_TOPIC_XXXX@S", 7, 1, 7, 0.7, 7.0),
        ("GROUP_GET_NUMS", "T@G", 2, 2, 2, 0.2, 1.0),
        ("GROUP_GET_NUMS", "T@H", 3, 1, 3, 0.3, 3.0),
        ("GROUP_GET_SIZE", "SCHEDULE_TOPIC_XXXX@S", 70, 1, 70, 7.0, 70.0),
        ("GROUP_GET_SIZE", "T@G", 20, 2, 20, 2.0, 10.0),
        ("GROUP_GET_SIZE", "T@H", 30, 1, 30, 3.0, 30.0),
        ("QUEUE_GET_NUMS", "SCHEDULE_TOPIC_XXXX@0@S", 7, 1, 7, 0.7, 7.0),
        ("QUEUE_GET_NUMS", "T@0@G", 2, 2, 2, 0.2, 1.0),
        ("QUEUE_GET_NUMS", "T@0@H", 3, 1, 3, 0.3, 3.0),
        ("QUEUE_GET_SIZE", "SCHEDULE_TOPIC_XXXX@0@S", 70, 1, 70, 7.0, 70.0),
        ("QUEUE_GET_SIZE", "T@0@G", 20, 2, 20, 2.0, 10.0),
        ("QUEUE_GET_SIZE", "T@0@H", 30, 1, 30, 3.0, 30.0),
        ("QUEUE_PUT_NUMS", "T@0", 5, 2, 5, 0.5, 2.5),
        ("QUEUE_PUT_NUMS", "U@1", 2, 1, 2, 0.2, 2.0),
        ("QUEUE_PUT_SIZE", "T@0", 50, 2, 50, 5.0, 25.0),
        ("QUEUE_PUT_SIZE", "U@1", 20, 1, 20, 2.0, 20.0),
        ("TOPIC_PUT_LATENCY", "0@T", 11, 2, 11, 1.1, 5.5),
        ("TOPIC_PUT_LATENCY", "1@U", 3, 1, 3, 0.3, 3.0),
        ("TOPIC_PUT_NUMS", "T", 5, 2, 5, 0.5, 2.5),
        ("TOPIC_PUT_NUMS", "U", 2, 1, 2, 0.2, 2.0),
        ("TOPIC_PUT_SIZE", "T", 50, 2, 50, 5.0, 25.0),
        ("TOPIC_PUT_SIZE", "U", 20, 1, 20, 2.0, 20.0),
    ]
    assert stats.moments() == [
        ("GROUP_GET_FALL_SIZE", "0@T@G", 1),
        ("GROUP_GET_FALL_SIZE", "0@T@H", 3),
        ("GROUP_GET_FALL_TIME", "0@T@G", 2),
        ("GROUP_GET_FALL_TIME", "0@T@H", 6),
    ]
