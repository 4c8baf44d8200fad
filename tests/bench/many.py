"""Stores of many queues with one file each: opening for writing, one get, a check and a recovery, by their number."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from store import check_store, open_store
from tests.bench.context import Bench
from tests.bench.report import Row
from tests.support.many_queues import many_queues, queue_name

QUEUE_COUNTS = (100, 1_000, 10_000, 100_000)
# Seconds that 100,000 queues may take.
TARGETS = {"open for writing": 3.0, "get": 0.5, "check": 10.0, "recover --abnormal": 15.0}


def many(bench: Bench) -> Iterator[Row]:
    """What each takes in this process; the targets are those of 100,000 queues."""
    for count in [count for count in QUEUE_COUNTS if count <= bench.scaled(QUEUE_COUNTS[-1])]:
        with bench.empty(f"many-{count}") as root:
            many_queues(root, count, 2 * count, queue_file_size=6000)
            for name, work in WORKS.items():
                began, cpu_began = time.perf_counter(), time.process_time()
                work(root)
                seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
                yield Row(f"{name}, {count:,} queues", seconds, "s", target=TARGETS[name],
                          note=f"{cpu:.2f} s of CPU time")  # fmt: skip


def _get(root: Path) -> None:
    with open_store(root) as store:
        assert store.get(*queue_name(7), 0).messages


def _recover(root: Path) -> None:
    (root / "checkpoint").write_bytes(bytes(4096))
    (root / "abort").touch()
    open_store(root, read_only=False, recover=True).close()


WORKS: dict[str, Callable[[Path], object]] = {
    "open for writing": lambda root: open_store(root, read_only=False).close(),
    "get": _get,
    "check": lambda root: list(check_store(root)),
    "recover --abnormal": _recover,
}
