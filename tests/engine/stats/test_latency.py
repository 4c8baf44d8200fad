"""The times of puts: the bounds of classes and buckets, and the percentiles of the last full minute."""

from __future__ import annotations

import pytest

from store.engine.stats.latency import BUCKET_BOUNDS_MS, CLASS_BOUNDS_MS, CLASSES, Latency

BUCKETS = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
    20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48,
    50, 55, 60, 65, 70, 75, 80, 85, 90, 95,
    100, 110, 120, 130, 140, 150, 160, 170, 180, 190,
    200, 250, 300, 350, 400, 450,
    500, 600, 700, 800, 900,
    1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10_000, 9_223_372_036_854_775_807,
]  # fmt: skip


def test_the_buckets_are_those_of_the_broker() -> None:
    assert list(BUCKET_BOUNDS_MS) == BUCKETS
    assert list(CLASS_BOUNDS_MS) == [0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000]


@pytest.mark.parametrize(
    ("elapsed_ms", "name"),
    [
        (0, "[<=0ms]"), (1, "[0~10ms]"), (9, "[0~10ms]"), (10, "[10~50ms]"), (49, "[10~50ms]"), (50, "[50~100ms]"),
        (99, "[50~100ms]"), (100, "[100~200ms]"), (200, "[200~500ms]"), (500, "[500ms~1s]"), (999, "[500ms~1s]"),
        (1000, "[1~2s]"), (2000, "[2~3s]"), (3000, "[3~4s]"), (4000, "[4~5s]"), (5000, "[5~10s]"), (9999, "[5~10s]"),
        (10_000, "[10s~]"),
    ],
)  # fmt: skip
def test_a_time_is_in_the_class_that_begins_with_it(elapsed_ms: int, name: str) -> None:
    latency = Latency()
    assert latency.describe_classes() == "null"
    latency.note(elapsed_ms)
    latency.rotate()
    assert latency.describe_classes() == "".join(f"{one}:{int(one == name)} " for one in CLASSES)
    assert (latency.max_ms, latency.total_ms, latency.total_classes) == (
        elapsed_ms, elapsed_ms, [int(one == name) for one in CLASSES]
    )  # fmt: skip
    latency.rotate()
    assert latency.describe_classes() == "".join(f"{one}:0 " for one in CLASSES)
    assert sum(latency.total_classes) == 1


def test_a_percentile_lies_evenly_between_the_bounds_of_its_bucket() -> None:
    latency = Latency()
    assert latency.percentile(0.5) == 0.0
    for elapsed_ms in (1, 20, 21, 22, 22, 600):
        latency.note(elapsed_ms)
    assert latency.percentile(0.5) == 0.0
    latency.rotate()
    shares = (0, 1 / 6, 2 / 6, 3 / 6, 5 / 6, 1)
    assert [round(latency.percentile(share), 3) for share in shares] == [0.0, 1.0, 20.0, 20.667, 22.0, 600.0]
