"""The figures of a bench: what is computed from what was measured."""

from __future__ import annotations

import math
import os
import time
from array import array
from pathlib import Path

import pytest

from rmqctl import bench
from rmqctl.bench import GEOMETRY, SETTINGS, Limits, Measured, histogram, measure_limits, measure_mode
from tests.cli.running import rmqctl
from tests.support.stores import SMALL

LIMITS = Limits(fdatasync_per_s=100.0, write_bytes_per_s=5e6, copy_bytes_per_s=8000.0)


def measured(mode: str = "async", count: int = 4, flush_count: int = 2, seconds: float = 2.0) -> Measured:
    return Measured(mode, 200, seconds, array("q", (1000 * number for number in range(1, count + 1))), flush_count)


def test_a_row_has_the_figures_of_a_mode() -> None:
    assert measured(count=1000).row(LIMITS) == {
        "mode": "async", "messages_per_s": 500, "bytes_per_s": 100_000, "p50_us": 500, "p90_us": 900, "p99_us": 990,
        "p99_9_us": 999, "max_us": 1000, "flush_count": 2, "messages_per_flush": 500, "ratio": 12.5,
    }  # fmt: skip
    assert measured(flush_count=0).row(LIMITS)["messages_per_flush"] is None
    fractions = Measured("async", 200, 3.0, array("q", [1250, 2250]), 3)
    assert [*fractions.row(LIMITS).values()] == [
        "async", 1, 133, 1.2, 2.2, 2.2, 2.2, 2.2, 3, 0.7, 0.0167,
    ]  # fmt: skip
    assert math.isnan(measured(flush_count=0).messages_per_flush)


@pytest.mark.parametrize(
    ("count", "percent", "us"),
    [(1, 0, 1), (1, 50, 1), (1, 100, 1), (2, 50, 1), (2, 51, 2), (3, 50, 2), (4, 50, 2), (4, 75, 3), (4, 76, 4),
     (4, 100, 4)],
)  # fmt: skip
def test_a_percentile_is_the_latency_that_so_many_are_not_above(count: int, percent: float, us: float) -> None:
    assert measured(count=count).percentile_us(percent) == us


@pytest.mark.parametrize(
    ("mode", "count", "flush_count", "ratio"),
    [
        ("sync", 40, 40, 0.2),
        ("sync", 40, 20, 0.1),
        ("sync", 40, 80, 0.2),
        ("async", 40, 40, 0.5),
        ("transient", 40, 1, 0.5),
    ],
)
def test_a_ratio_is_against_the_devices_syncs_or_the_memory(
    mode: str, count: int, flush_count: int, ratio: float
) -> None:
    assert measured(mode, count, flush_count).ratio(LIMITS) == pytest.approx(ratio)


def test_a_latency_class_reaches_up_to_a_power_of_two_of_microseconds() -> None:
    one = Measured("async", 1, 1.0, array("q", [999, 1000, 1999, 2000, 3999, 4000]), 0)
    two = Measured("sync", 1, 1.0, array("q", [5000]), 0)
    assert histogram([one, two]) == [
        {"up_to_us": 1, "async": 1, "sync": 0},
        {"up_to_us": 2, "async": 2, "sync": 0},
        {"up_to_us": 4, "async": 2, "sync": 0},
        {"up_to_us": 8, "async": 1, "sync": 1},
    ]
    assert histogram([]) == []


@pytest.mark.parametrize("mode", SETTINGS)
@pytest.mark.parametrize(("count", "threads"), [(7, 3), (1, 1), (2, 3)])
def test_each_message_is_put_once_by_one_of_the_threads(mode: str, count: int, threads: int, tmp_path: Path) -> None:
    seen = [0]
    found = measure_mode(tmp_path / "store", mode, count, 10, threads, seen.append, {**GEOMETRY, **SMALL})
    assert (found.mode, found.record_size, len(found.latencies_ns)) == (mode, 91 + len("FlushBench") + 10, count)
    assert (seen, list(found.latencies_ns)) == (sorted(seen), sorted(found.latencies_ns))
    assert (min(found.latencies_ns) > 0, max(seen) <= count) == (True, True)
    # Threads whose puts wait together share a flush.
    assert (mode == "sync") <= found.flush_count <= (count if mode == "sync" else math.inf)


def test_a_bench_without_a_store_has_segments_of_64_mib() -> None:
    assert (bench.SEGMENT_SIZE, GEOMETRY["mappedFileSizeCommitLog"]) == (64 << 20, str(64 << 20))


def test_limits_are_measured_in_a_file_that_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 10.25, 10.5, 11.0, *[20.0, 20.5], *[30, 38, 50, 57, 60, 66, 70, 75, 80, 84]])
    synced: list[tuple[str, int]] = []
    put: list[tuple[int, int]] = []
    monkeypatch.setattr(bench, "SEGMENT_SIZE", 600)
    monkeypatch.setattr(bench, "SYNC_LOOP_S", 1.0)
    monkeypatch.setattr(bench, "COPY_SIZE", 3 << 20)
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    monkeypatch.setattr("os.pwrite", lambda descriptor, data, position: put.append((len(data), position)))
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(f"os.{name}", lambda one, name=name: synced.append((name, os.fstat(one).st_size)))
    assert measure_limits(tmp_path, 200) == Limits(2.0, (3 << 20) / 0.5, (3 << 20) / 5)
    assert put == [(200, 0), (200, 200)]
    assert synced == [("fsync", 600), ("fdatasync", 600), ("fdatasync", 600), ("fdatasync", 3 << 20)]
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_waits_for_the_puts_that_are_under_way() -> None:
    def interrupt(count: int) -> None:
        raise KeyboardInterrupt

    def put(message: object) -> None:
        for _ in range(1000):
            if all(part.stopped for part in parts):
                return
            time.sleep(0.01)

    parts = [bench._Part(put, None, 9) for _ in range(2)]
    for part in parts:
        part.start()
    with pytest.raises(KeyboardInterrupt):
        bench._wait(parts, interrupt)
    assert [(part.is_alive(), len(part.latencies_ns)) for part in parts] == [(False, 1)] * 2


@pytest.mark.parametrize(
    ("words", "modes"),
    [((), ["async", "sync", "transient"]), (("--mode", "sync"), ["sync"]), (("--mode", "all"), None)],
)
def test_every_mode_is_measured_or_the_one_that_is_asked_for(
    words: tuple[str, ...], modes: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []

    def measure(scratch: Path, name: str, messages: int, body_size: int, threads: int, *rest: object) -> Measured:
        scratch.mkdir()
        asked.append((name, messages, body_size, threads))
        return measured(name, seconds={"async": 2.0, "sync": 4.0, "transient": 1.0}[name])

    monkeypatch.setattr(bench, "measure_limits", lambda scratch, size: LIMITS)
    monkeypatch.setattr(bench, "measure_mode", measure)
    line = ("flush-bench", "--messages", "7", "--body-size", "9", "--threads", "3", *words)
    run = rmqctl("--format", "json", *line, store=tmp_path / "store")
    names = modes or list(SETTINGS)
    assert (run.code, asked) == (0, [(name, 7, 9, 3) for name in names])
    assert [row["mode"] for row in run.json["modes"]] == names
    assert [run.json[name] for name in ("message_count", "body_size_bytes", "thread_count")] == [7, 9, 3]
    assert list(tmp_path.iterdir()) == []
    fastest = "4 messages/s at most (transient)" if len(names) > 1 else "1 messages/s at most (sync)"
    assert rmqctl(*line, store=tmp_path / "store").out.startswith(f"{fastest}, on this device, now\n")
