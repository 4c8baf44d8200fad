"""Where the time of a recovery goes: `python -m tests.bench.profile_recover [--dir DIR] [--size small|full]`.

Each step is timed in its thread: calls, seconds on the wall, seconds of CPU. Steps contain others: queues and index are
built in threads of their own beside the walk, so that wall times overlap, and CPU times add up.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import store.verbs.recover.recover as recovery
from store import kernels
from store.dispatch.fan_out import FanOut
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.index.index_service import IndexService
from store.verbs.recover.lost import LossCounter
from tests.bench.context import KIB, SMALL_BODY, Bench
from tests.bench.walks import recover_here

RUNS = 4
STEPS = (
    (ConsumeQueueStore, "put_units", "queues"),
    (IndexService, "put_keys", "index"),
    (FanOut, "dispatch", "walk waits for builders"),
    (FanOut, "__exit__", "end waits for builders"),
    (recovery, "walk", "walk"),
    (LossCounter, "report", "what lies past the end"),
)

Times = dict[str, list[float]]


def measure(times: Times, place: Any, name: str, label: str) -> None:
    """Replaces a function by one that notes its calls, wall and CPU seconds under `label`."""
    function: Callable[..., Any] = getattr(place, name)

    def timed(*arguments: Any, **named: Any) -> Any:
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            return function(*arguments, **named)
        finally:
            entry = times.setdefault(label, [0, 0.0, 0.0])
            entry[0] += 1
            entry[1] += time.perf_counter() - wall
            entry[2] += time.thread_time() - cpu

    setattr(place, name, timed)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--size", choices=("small", "full"), default="full")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rmqctl-bench-", dir=options.dir))
    bench, times = Bench(folder, 1.0 if options.size == "full" else 0.1), Times()
    for name in kernels.__all__[1:]:
        measure(times, kernels, name, f"    {name}")
    for step in STEPS:
        measure(times, *step)
    try:
        for body_size in (KIB, SMALL_BODY):
            _print_best(bench, times, body_size)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _print_best(bench: Bench, times: Times, body_size: int) -> None:
    """The fastest of some runs."""
    root, found = bench.store(body_size), []
    for _ in range(RUNS):
        times.clear()
        wall, cpu, _applied = recover_here(root, apply=False)
        found.append((wall, cpu, dict(times)))
    wall, cpu, best = min(found, key=lambda one: one[0])
    print(f"\n{bench.count(body_size):,} x {body_size} B: {wall:.3f} s, CPU {cpu:.3f} s")
    print(f"{'step':28}{'calls':>7}{'wall s':>9}{'CPU s':>9}")
    for label, (calls, wall, cpu) in sorted(best.items(), key=lambda item: -item[1][2]):
        print(f"{label:28}{calls:7.0f}{wall:9.3f}{cpu:9.3f}")


if __name__ == "__main__":
    main()
