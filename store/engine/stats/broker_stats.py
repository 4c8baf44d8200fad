"""BrokerStatsManager: counts by topic, group and queue, and rates of minute, hour and day.

    set                          key                     value
    TOPIC_PUT_NUMS, _SIZE        topic                   messages, bytes
    GROUP_GET_NUMS, _SIZE        topic@group             messages, bytes
    GROUP_GET_LATENCY            queueId@topic@group     ms
    QUEUE_PUT_NUMS, _SIZE        topic@queueId           messages, bytes
    QUEUE_GET_NUMS, _SIZE        topic@queueId@group     messages, bytes
    BROKER_PUT_NUMS, _GET_NUMS   cluster name            messages
    GROUP_GET_FALL_SIZE, _TIME   queueId@topic@group     the last value: bytes, ms behind

    of 5.x:
    TOPIC_PUT_LATENCY            queueId@topic           ms
    BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC, BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC
                                 cluster name            messages

Sets of 5.x on clients (acknowledgements, changed invisible times, dead letters, channels) are left out: a store has no
clients.

    ring      a snapshot each    kept    covers
    minute    10 s               7       60 s
    hour      10 min             7       60 min
    day       1 h                25      24 h

sum = newest - oldest value; rate = sum per second between both; average = sum per counted time. An empty ring begins
with zeros, one interval before its first snapshot.

Source: BrokerStatsManager, StatsItemSet, StatsItem, MomentStatsItem (4.9.8, 5.3.3), TopicValidator (5.3.3).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from store.broker_line import LINE_4_9, BrokerLine
from store.formats.topics import DISCARD_TOPIC, HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC, SYSTEM_PREFIX

CLUSTER = "DefaultCluster"
SYSTEM_TOPICS = frozenset((
    "TBW102", SCHEDULE_TOPIC, "BenchmarkTest", HALF_TOPIC, "RMQ_SYS_TRACE_TOPIC",
    OP_TOPIC, DISCARD_TOPIC, "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
))  # fmt: skip
WITHOUT_SYSTEM_TOPIC = "_WITHOUT_SYSTEM_TOPIC"
MINUTE_STEP_MS, HOUR_STEP_MS, DAY_STEP_MS = 10_000, 600_000, 3_600_000
RINGS = {"minute": (MINUTE_STEP_MS, 7), "hour": (HOUR_STEP_MS, 7), "day": (DAY_STEP_MS, 25)}


class Snapshot(NamedTuple):
    """The counts of one item at one time."""

    time_ms: int
    value: int
    times: int


class StatsReport(NamedTuple):
    """Sum, rate per second, and average per time, over a ring."""

    sum: int
    tps: float
    average: float


class StatsItem:
    """One key of a set."""

    __slots__ = ("rings", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        self.rings: dict[str, deque[Snapshot]] = {name: deque(maxlen=kept) for name, (_, kept) in RINGS.items()}

    def sample(self, ring: str, now_ms: int) -> None:
        """Take a snapshot into one ring."""
        kept = self.rings[ring]
        if not kept:
            kept.append(Snapshot(now_ms - RINGS[ring][0], 0, 0))
        kept.append(Snapshot(now_ms, self.value, self.times))

    def report(self, ring: str) -> StatsReport:
        """Return sum, rate and average over one ring."""
        kept = self.rings[ring]
        if not kept:
            return StatsReport(0, 0.0, 0.0)
        first, last = kept[0], kept[-1]
        total, passed_ms, times = last.value - first.value, last.time_ms - first.time_ms, last.times - first.times
        return StatsReport(total, total * 1000 / passed_ms if passed_ms else 0.0, total / times if times else 0.0)


class BrokerStatsManager:
    """The sets of one store; `clock` returns milliseconds. All methods are safe in several threads."""

    def __init__(self, clock: Callable[[], int], line: BrokerLine = LINE_4_9) -> None:
        self._clock = clock
        self._has_sets_of_5_x = line is not LINE_4_9
        self._items: dict[tuple[str, str], StatsItem] = {}
        self._moments: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    # Counting.

    def note_put(self, topic: str, queue_id: int, message_count: int, size: int, elapsed_ms: int = 0) -> None:
        """Count messages that were put, and the time of the put."""
        with self._lock:
            self._add("TOPIC_PUT_NUMS", topic, message_count)
            self._add("TOPIC_PUT_SIZE", topic, size)
            self._add("QUEUE_PUT_NUMS", f"{topic}@{queue_id}", message_count)
            self._add("QUEUE_PUT_SIZE", f"{topic}@{queue_id}", size)
            self._add_broker("BROKER_PUT_NUMS", topic, message_count)
            if self._has_sets_of_5_x:
                self._add("TOPIC_PUT_LATENCY", f"{queue_id}@{topic}", elapsed_ms)

    def note_get(
        self, group: str, topic: str, queue_id: int, message_count: int, size: int, *, of_broker: bool = True
    ) -> None:
        """Count messages that a consumer group got; `of_broker` is False for delayed deliveries."""
        with self._lock:
            self._add("GROUP_GET_NUMS", f"{topic}@{group}", message_count)
            self._add("GROUP_GET_SIZE", f"{topic}@{group}", size)
            self._add("QUEUE_GET_NUMS", f"{topic}@{queue_id}@{group}", message_count)
            self._add("QUEUE_GET_SIZE", f"{topic}@{queue_id}@{group}", size)
            if of_broker:
                self._add_broker("BROKER_GET_NUMS", topic, message_count)

    def note_get_latency(self, group: str, topic: str, queue_id: int, elapsed_ms: int) -> None:
        """Count the time of a get."""
        with self._lock:
            self._add("GROUP_GET_LATENCY", f"{queue_id}@{topic}@{group}", elapsed_ms)

    def note_fall_behind(self, group: str, topic: str, queue_id: int, *, behind_bytes: int, behind_ms: int) -> None:
        """Store a group's lag behind the log's end."""
        key = f"{queue_id}@{topic}@{group}"
        with self._lock:
            self._moments["GROUP_GET_FALL_SIZE", key] = behind_bytes
            self._moments["GROUP_GET_FALL_TIME", key] = behind_ms

    def _add_broker(self, name: str, topic: str, message_count: int) -> None:
        self._add(name, CLUSTER, message_count, times=0)
        if self._has_sets_of_5_x and topic not in SYSTEM_TOPICS and not topic.startswith(SYSTEM_PREFIX):
            self._add(name + WITHOUT_SYSTEM_TOPIC, CLUSTER, message_count, times=0)

    def _add(self, name: str, key: str, value: int, times: int = 1) -> None:
        item = self._items.get((name, key))
        if item is None:
            item = self._items[name, key] = StatsItem()
        item.value += value
        item.times += times

    def sample(self, ring: str) -> None:
        """Take a snapshot of every item into one ring."""
        now_ms = self._clock()
        with self._lock:
            for item in self._items.values():
                item.sample(ring, now_ms)

    # Reporting.

    def items(self) -> list[tuple[str, str, StatsItem]]:
        """Return every set, key and item, in order."""
        with self._lock:
            return [(name, key, item) for (name, key), item in sorted(self._items.items())]

    def moments(self) -> list[tuple[str, str, int]]:
        """Return set, key and value of every counter that keeps the last value."""
        with self._lock:
            return [(name, key, value) for (name, key), value in sorted(self._moments.items())]

    def report(self, name: str, key: str, ring: str = "minute") -> StatsReport:
        """Return sum, rate and average of one item; zeros for an unknown one."""
        with self._lock:
            item = self._items.get((name, key))
            return item.report(ring) if item is not None else StatsReport(0, 0.0, 0.0)
