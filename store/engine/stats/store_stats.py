"""StoreStatsService: the counters of one store, and its rates over 10, 60 and 600 seconds.

    a put    messages and bytes by topic, its latency; or a failure
    a get    found or missed, returned messages, the longest time
    1 s      a snapshot of the four totals; 601 are kept
    60 s     the latency's minute ends

The rate over n seconds is from the newest snapshot and the n-th before it; with fewer snapshots it is left out.

Source: StoreStatsService (4.9.8, 5.3.3).
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from store.engine.stats.latency import Latency
from store.formats.java import double_text

SAMPLE_MS = 1000
ROTATE_MS = 60_000
MOST_SAMPLES = 601
RATE_SECONDS = (10, 60, 600)


class Sample(NamedTuple):
    """The totals at one time."""

    time_ms: int
    put: int
    found: int
    missed: int
    transferred: int


class StoreStatsService:
    """Counts since the start; `clock` returns milliseconds. All methods are safe in several threads.

    transferred_name  the name of the rate of returned messages; 5.x spells it with two r
    """

    def __init__(self, clock: Callable[[], int], *, transferred_name: str = "getTransferedTps") -> None:
        self.topic_messages: Counter[str] = Counter()
        self.topic_bytes: Counter[str] = Counter()
        self.failed_puts = 0
        self.found_gets = self.missed_gets = 0
        self.transferred_messages = 0
        self.get_time_max_ms = 0
        self.latency = Latency()
        self.boot_ms = clock()
        self._clock = clock
        self._transferred_name = transferred_name
        self._samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)
        self._lock = threading.Lock()

    # Counting.

    def note_put(self, topic: str, message_count: int, size: int, elapsed_ms: int) -> None:
        """Count a put; its topic is the stored one."""
        with self._lock:
            self.topic_messages[topic] += message_count
            self.topic_bytes[topic] += size
            self.latency.note(elapsed_ms)

    def note_failed_put(self, elapsed_ms: int) -> None:
        """Count a put that stored nothing."""
        with self._lock:
            self.failed_puts += 1
            self.latency.note(elapsed_ms)

    def note_get(self, message_count: int, elapsed_ms: int) -> None:
        """Count a get; without messages it missed."""
        with self._lock:
            if message_count:
                self.found_gets += 1
            else:
                self.missed_gets += 1
            self.transferred_messages += message_count
            self.get_time_max_ms = max(self.get_time_max_ms, elapsed_ms)

    def sample(self) -> None:
        """Take a snapshot of the totals."""
        with self._lock:
            put = sum(self.topic_messages.values())
            now_ms = self._clock()
            self._samples.append(Sample(now_ms, put, self.found_gets, self.missed_gets, self.transferred_messages))

    def rotate(self) -> None:
        """End a minute of latencies."""
        with self._lock:
            self.latency.rotate()

    # Reporting.

    @property
    def put_messages(self) -> int:
        return sum(self.topic_messages.copy().values())

    @property
    def put_bytes(self) -> int:
        return sum(self.topic_bytes.copy().values())

    def rate(self, name: str, seconds: int) -> float | None:
        """Return the rate per second of a field of Sample over the newest samples; None with too few."""
        samples = self._samples
        if len(samples) <= seconds:
            return None
        newest, older = samples[-1], samples[-1 - seconds]
        passed_ms = newest.time_ms - older.time_ms
        return (getattr(newest, name) - getattr(older, name)) / passed_ms * 1000 if passed_ms else None

    def runtime_info(self) -> dict[str, str]:
        """Return the report under the broker's names, as texts."""
        with self._lock:
            messages, size = self.put_messages, self.put_bytes
            # The broker's divisor, and so its report, is 1 without any put.
            shown = messages or 1
            return {
                "bootTimestamp": str(self.boot_ms),
                "runtime": describe_duration(self._clock() - self.boot_ms),
                "putMessageEntireTimeMax": str(self.latency.max_ms),
                "putMessageTimesTotal": str(shown),
                "putMessageFailedTimes": str(self.failed_puts),
                "putMessageSizeTotal": str(size),
                "putMessageDistributeTime": self.latency.describe_classes(),
                "putMessageAverageSize": double_text(size / shown),
                "dispatchMaxBuffer": "0",
                "getMessageEntireTimeMax": str(self.get_time_max_ms),
                "putTps": self._rates("put"),
                "getFoundTps": self._rates("found"),
                "getMissTps": self._rates("missed"),
                "getTotalTps": self._total_rates(),
                self._transferred_name: self._rates("transferred"),
                "putLatency99": f"{self.latency.percentile(0.99):.2f}",
                "putLatency999": f"{self.latency.percentile(0.999):.2f}",
            }

    def _rates(self, name: str) -> str:
        rates = (self.rate(name, seconds) for seconds in RATE_SECONDS)
        return " ".join("" if rate is None else double_text(rate) for rate in rates)

    def _total_rates(self) -> str:
        pairs = ((self.rate("found", seconds) or 0.0, self.rate("missed", seconds) or 0.0) for seconds in RATE_SECONDS)
        return " ".join(double_text(found + missed) for found, missed in pairs)


def describe_duration(passed_ms: int) -> str:
    """Return a duration as the broker writes it."""
    seconds = max(0, passed_ms) // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"
