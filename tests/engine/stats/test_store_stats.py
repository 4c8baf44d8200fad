"""The counters of a store, by an injected clock; the numbers are those of the broker's own class."""

from __future__ import annotations

import pytest

from store.engine.stats.latency import BUCKET_BOUNDS_MS, Latency
from store.engine.stats.store_stats import StoreStatsService, describe_duration
from store.formats.java import double_text
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


@pytest.mark.parametrize(
    ("elapsed_ms", "place"),
    [
        (0, 0), (1, 1), (9, 1), (10, 2), (11, 2), (49, 2), (50, 3), (99, 3), (100, 4), (199, 4), (200, 5), (499, 5),
        (500, 6), (999, 6), (1000, 7), (1999, 7), (2000, 8), (2999, 8), (3000, 9), (3999, 9), (4000, 10), (4999, 10),
        (5000, 11), (9999, 11), (10_000, 12), (10_001, 12),
    ],
)  # fmt: skip
def test_each_time_is_in_its_class(elapsed_ms: int, place: int) -> None:
    latency = rotated(elapsed_ms)
    expected = [int(number == place) for number in range(13)]
    assert (latency.last_classes, latency.total_classes) == (expected, expected)
    assert (latency.max_ms, latency.total_ms) == (elapsed_ms, elapsed_ms)


# One put's time, and the bound of its bucket: the time that all puts took at most.
BOUNDS = [(0, 1), (1, 1), (2, 2), (20, 20), (21, 22), (47, 48), (49, 50), (51, 55), (95, 95), (96, 100), (101, 110)]
BOUNDS += [(191, 200), (201, 250), (251, 300), (451, 500), (501, 600), (901, 1000), (1001, 2000), (9001, 10_000)]


@pytest.mark.parametrize(("elapsed_ms", "bound_ms"), [*BOUNDS, (10_001, float((1 << 63) - 1))])
def test_a_time_counts_as_its_buckets_bound(elapsed_ms: int, bound_ms: float) -> None:
    assert rotated(elapsed_ms).percentile(1.0) == bound_ms


def test_totals_of_latency_outlive_the_minute_and_the_minute_does_not() -> None:
    latency = rotated(7, 3)
    latency.note(5)
    latency.rotate()
    assert (latency.max_ms, latency.total_ms, latency.total_classes[1], latency.last_classes) == (
        7, 15, 3, [0, 1, *[0] * 11],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(0, 0.99, 0.0), (1, 0.99, 0.0), (1, 1.0, 8.0), (2, 0.5, 7.5), (4, 0.25, 7.25), (4, 1.0, 8.0)],
)
def test_a_percentile_of_one_bucket(count: int, share: float, expected: float) -> None:
    assert rotated(*[8] * count).percentile(share) == expected


@pytest.mark.parametrize(
    ("passed_ms", "text"),
    [
        (-1, "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"),
        (999, "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"),
        (1000, "[ 0 days, 0 hours, 0 minutes, 1 seconds ]"),
        (59_999, "[ 0 days, 0 hours, 0 minutes, 59 seconds ]"),
        (60_000, "[ 0 days, 0 hours, 1 minutes, 0 seconds ]"),
        (3_599_999, "[ 0 days, 0 hours, 59 minutes, 59 seconds ]"),
        (3_600_000, "[ 0 days, 1 hours, 0 minutes, 0 seconds ]"),
        (86_399_999, "[ 0 days, 23 hours, 59 minutes, 59 seconds ]"),
        (86_400_000, "[ 1 days, 0 hours, 0 minutes, 0 seconds ]"),
    ],
)
def test_a_duration_changes_at_its_bounds(passed_ms: int, text: str) -> None:
    assert describe_duration(passed_ms) == text


def test_the_report_has_each_value_in_its_place() -> None:
    clock = Clock()
    stats = StoreStatsService(clock)
    for second in range(601):
        stats.sample()
        stats.note_put("T", 2, 200, 8)
        stats.note_put("U", 1, 50, 4)
        stats.note_get(4, 3)
        stats.note_get(0, 9)
        stats.note_get(0, 2)
        clock.now_ms += 1000
        assert stats.rate("put", 600) == (None if second < 600 else 3.0)
    stats.note_failed_put(12)
    stats.rotate()
    assert stats.runtime_info() == {
        "bootTimestamp": "1700000000000",
        "runtime": "[ 0 days, 0 hours, 10 minutes, 1 seconds ]",
        "putMessageEntireTimeMax": "12",
        "putMessageTimesTotal": "1803",
        "putMessageFailedTimes": "1",
        "putMessageSizeTotal": "150250",
        "putMessageDistributeTime": (
            "[<=0ms]:0 [0~10ms]:1202 [10~50ms]:1 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:0 [1~2s]:0 "
            "[2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0 "
        ),
        "putMessageAverageSize": double_text(150250 / 1803),
        "dispatchMaxBuffer": "0",
        "getMessageEntireTimeMax": "9",
        "putTps": "3.0 3.0 3.0",
        "getFoundTps": "1.0 1.0 1.0",
        "getMissTps": "2.0 2.0 2.0",
        "getTotalTps": "3.0 3.0 3.0",
        "getTransferedTps": "4.0 4.0 4.0",
        "putLatency99": "7.98",
        "putLatency999": "8.00",
    }


def test_the_rate_of_ten_minutes_takes_the_last_601_samples_and_no_more_are_kept() -> None:
    clock = Clock()
    service = StoreStatsService(clock)
    for _ in range(700):
        service.sample()
        clock.now_ms += 1000
        service.note_put("T", 1, 100, 0)
    assert service.rate("put", 600) == 1.0
    assert service.rate("put", 601) is None
