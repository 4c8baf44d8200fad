"""The counters of a store, by an injected clock; the numbers are those of the broker's own class."""

from __future__ import annotations

import pytest

from store.formats.java import double_text
from store.stats.latency import BUCKET_BOUNDS_MS, Latency
from store.stats.store_stats import StoreStatsService, describe_duration
from tests.support.stores import Clock

# What StoreStatsService of 4.9.8 printed for these times.
TIMES_MS = (0, 0, 1, 3, 7, 20, 22, 49, 60, 99, 150, 700, 2500, 20000)
CLASSES = (
    "[<=0ms]:2 [0~10ms]:3 [10~50ms]:3 [50~100ms]:2 [100~200ms]:1 [200~500ms]:0 [500ms~1s]:1 [1~2s]:0 [2~3s]:1 "
    "[3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:1 "
)
EMPTY = {
    "getFoundTps": "  ", "putMessageDistributeTime": "null", "putMessageFailedTimes": "0", "putLatency999": "0.00",
    "getMessageEntireTimeMax": "0", "putMessageTimesTotal": "1", "putLatency99": "0.00",
    "putMessageEntireTimeMax": "0", "runtime": "[ 0 days, 0 hours, 0 minutes, 0 seconds ]", "dispatchMaxBuffer": "0",
    "putTps": "  ", "getMissTps": "  ", "putMessageAverageSize": "0.0", "getTransferedTps": "  ",
    "putMessageSizeTotal": "0", "getTotalTps": "0.0 0.0 0.0", "bootTimestamp": "1700000000000",
}  # fmt: skip


def rotated(*times_ms: int) -> Latency:
    latency = Latency()
    for elapsed_ms in times_ms:
        latency.note(elapsed_ms)
    latency.rotate()
    return latency


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.1, 1 / 3), (0.25, 1.0), (0.5, 22.0), (0.75, 100.0), (0.9, 700.0), (0.99, 3000.0), (0.999, 3000.0)],
)
def test_a_percentile_is_spread_evenly_inside_its_bucket(share: float, expected: float) -> None:
    assert rotated(*TIMES_MS).percentile(share) == pytest.approx(expected)


def test_the_classes_are_those_of_the_last_full_minute() -> None:
    latency = rotated(*TIMES_MS)
    latency.note(5)
    assert latency.describe_classes() == CLASSES
    latency.rotate()
    assert latency.last_classes is not None
    assert sum(latency.last_classes) == 1


def test_the_buckets_grow_with_the_time() -> None:
    assert list(BUCKET_BOUNDS_MS) == sorted(set(BUCKET_BOUNDS_MS))
    assert BUCKET_BOUNDS_MS[:3] == (1, 2, 3)
    assert BUCKET_BOUNDS_MS[-2:] == (10_000, (1 << 63) - 1)


def test_a_fresh_service_reports_what_the_broker_reports() -> None:
    assert StoreStatsService(Clock()).runtime_info() == EMPTY


def test_the_line_5_names_the_rate_of_messages_handed_out_otherwise() -> None:
    info = StoreStatsService(Clock(), transferred_name="getTransferredTps").runtime_info()
    assert "getTransferredTps" in info
    assert "getTransferedTps" not in info


def test_totals_maxima_and_the_average_size() -> None:
    clock = Clock()
    stats = StoreStatsService(clock)
    for elapsed_ms in TIMES_MS:
        stats.note_put("T", 1, 100 + elapsed_ms, elapsed_ms)
    stats.note_failed_put(3)
    stats.note_get(0, 4)
    stats.note_get(2, 9)
    info = stats.runtime_info()
    assert (info["putMessageTimesTotal"], info["putMessageSizeTotal"], info["putMessageAverageSize"]) == (
        "14", "25011", "1786.5",
    )  # fmt: skip
    assert (info["putMessageFailedTimes"], info["putMessageEntireTimeMax"]) == ("1", "20000")
    assert (stats.found_gets, stats.missed_gets, info["getMessageEntireTimeMax"]) == (1, 1, "9")


def test_a_rate_is_given_once_there_are_more_samples_than_seconds() -> None:
    clock = Clock()
    stats = StoreStatsService(clock)
    for second in range(61):
        stats.sample()
        assert (stats.rate("put", 10) is None) == (second < 10)
        stats.note_put("T", 5 if second < 50 else 20, 1, 0)
        stats.note_get(3, 0)
        clock.now_ms += 1000
    # The newest sample is of second 60, the older one of second 50.
    assert stats.rate("put", 10) == pytest.approx(20.0)
    assert stats.rate("put", 60) == pytest.approx((50 * 5 + 10 * 20) / 60)
    assert stats.runtime_info()["putTps"].split(" ")[0::2] == ["20.0", ""]
    assert stats.runtime_info()["getTotalTps"] == "1.0 1.0 0.0"
    assert stats.rate("transferred", 10) == pytest.approx(3.0)


def test_only_the_newest_601_samples_are_kept() -> None:
    clock = Clock()
    stats = StoreStatsService(clock)
    for second in range(1000):
        stats.note_put("T", second, 1, 0)
        stats.sample()
        clock.now_ms += 1000
    assert stats.rate("put", 600) == pytest.approx(sum(range(400, 1000)) / 600)


@pytest.mark.parametrize(
    ("passed_ms", "text"),
    [
        (0, "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"),
        (93_784_999, "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"),
    ],
)
def test_the_duration_is_written_as_the_broker_does(passed_ms: int, text: str) -> None:
    assert describe_duration(passed_ms) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (1.0, "1.0"), (0.1, "0.1"), (100.0, "100.0"), (9999999.0, "9999999.0"), (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"), (0.001, "0.001"), (0.00012, "1.2E-4"), (float("inf"), "Infinity"),
    ],
)  # fmt: skip
def test_a_double_is_written_as_java_does(value: float, text: str) -> None:
    assert double_text(value) == text
