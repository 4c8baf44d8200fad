"""Sync flush: sixteen threads whose puts return when their messages are durable, and one, beside the reference."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from rmqctl import bench as flush_bench
from tests.bench import limits, paced_device
from tests.bench.context import KIB, Bench
from tests.bench.puts import measure, reference_puts
from tests.bench.report import Row

THREADS, COUNT = 16, 20_000
RECORD_SIZE = KIB + 101
TARGET_RATIO = 0.6
DEVICE_PER_S = 9_000
"""Syncs a second of the device that the target is for: 8,000 to 10,000."""
FASTEST_DEVICE_PER_S = 10_000


def sync(bench: Bench) -> Iterator[Row]:
    """On this device, and on one of DEVICE_PER_S syncs a second where this one is faster."""
    group_row, device_per_s = _group_commit(bench)
    yield group_row
    if bench.against:
        yield from _beside_reference(bench)
    if device_per_s > FASTEST_DEVICE_PER_S and not paced_device.is_paced():
        yield from paced_device.rows("sync", bench, DEVICE_PER_S)


def _group_commit(bench: Bench) -> tuple[Row, float]:
    """Sixteen threads, and the device's rate. The run with the median ratio counts: the device's rate varies more than
    ours, and the best ratio would be that of an unlucky limit."""
    with bench.empty("sync") as root:
        root.mkdir()
        found = sorted(_measured(bench, root / str(number)) for number in range(bench.runs))
    ratio, per_s, group, device_per_s = found[len(found) // 2]
    ratios = ", ".join(f"{one[0]:.2f}" for one in found)
    note = (
        f"{group:.1f} messages a sync; the device makes {device_per_s:.0f} appends durable a second; "
        f"ratios of all runs: {ratios}"
    )
    target = TARGET_RATIO if device_per_s <= FASTEST_DEVICE_PER_S else None
    name = "put, sync flush, 16 threads"
    return Row(name, per_s, "messages/s", "syncs x group", per_s / ratio, target_ratio=target, note=note), device_per_s


def _measured(bench: Bench, root: Path) -> tuple[float, float, float, float]:
    """Ratio, messages per second, messages per sync, and the device's rate: the better of before and after."""
    before = limits.fdatasyncs_per_s(root.parent, RECORD_SIZE)
    found = flush_bench.measure_mode(root, "sync", bench.scaled(COUNT), KIB, THREADS, lambda done: None)
    device_per_s = max(before, limits.fdatasyncs_per_s(root.parent, RECORD_SIZE))
    group = found.messages_per_flush
    return found.per_s / (device_per_s * group), found.per_s, group, device_per_s


def _beside_reference(bench: Bench) -> Iterator[Row]:
    """One thread and sixteen, in turns with the reference; the turn with the median ratio counts."""
    for threads in (1, THREADS):
        turns = [_turn(bench, threads) for _ in range(bench.runs)]
        if not all(theirs for _, theirs in turns):
            print(f"the reference's bench puts from one thread only: no row for {threads}", file=sys.stderr)
            continue
        ours, theirs = sorted(turns, key=lambda turn: turn[0] / turn[1])[len(turns) // 2]
        name = f"put, sync flush, {threads} threads" if threads > 1 else "put, sync flush, one thread"
        ratios = ", ".join(f"{ratio:.2f}" for ratio in sorted(ours / theirs for ours, theirs in turns))
        yield Row(name, ours, "messages/s", "reference", theirs, target_ratio=1.0, note=f"ratios of all runs: {ratios}")


def _turn(bench: Bench, threads: int) -> tuple[float, float]:
    """Messages per second here and by the reference."""
    count = bench.scaled(COUNT)
    ours = measure(bench, "sync", KIB, count, threads).per_s
    return ours, reference_puts(bench, KIB, count, "--sync", threads=threads)
