"""Putting: one by one, from four threads, in bulk; and what it takes in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rmqctl import bench as flush_bench
from store import Message, open_store
from store.structures.commitlog.bulk import MessageColumns
from tests.bench import limits, stores
from tests.bench.context import KIB, MIB, SMALL_BODY, Bench, size_name
from tests.bench.memory import PeakMemory
from tests.bench.report import Row

PUT_TARGETS = {KIB: 100e3, SMALL_BODY: 200e3}
MEMORY_TARGET = 300 * MIB


def put(bench: Bench) -> Iterator[Row]:
    """One message a call into an empty store, async flush, dispatch running: one thread, then four beside it."""
    for body_size, target in PUT_TARGETS.items():
        turns = [_turn(bench, body_size, bench.scaled(500_000)) for _ in range(bench.runs)]
        runs = [ours for ours, _ in turns]
        best, dispatched, _ = max(runs)
        note = (
            f"{dispatched / 1e3:.0f} k messages/s until queues and index had caught up; at least "
            f"{min(run[2] for run in runs) * 1e6:.2f} us of the thread's CPU a put"
        )
        name = f"put into an empty store, one thread, {size_name(body_size)}"
        yield Row(name, best, "messages/s", target=target, note=note)
        if bench.against:
            (ours, theirs), ratios = _median_turn([(ours[0], theirs) for ours, theirs in turns])
            yield Row(name, ours, "messages/s", "reference", theirs, target_ratio=1.5, note=ratios)
        yield _row_of_threads(bench, body_size)


def _turn(bench: Bench, body_size: int, count: int) -> tuple[tuple[float, float, float], float]:
    """What _put_once gives here, and messages per second of the reference right behind."""
    ours = _put_once(bench, body_size, count)
    return ours, reference_puts(bench, body_size, count) if bench.against else 0.0


def _median_turn(turns: list[tuple[float, float]]) -> tuple[tuple[float, float], str]:
    """The turn with the median ratio, and the ratios of all as a note."""
    turns = sorted(turns, key=lambda turn: turn[0] / turn[1])
    return turns[len(turns) // 2], f"ratios of all runs: {', '.join(f'{a / b:.2f}' for a, b in turns)}"


def _row_of_threads(bench: Bench, body_size: int) -> Row:
    """Four threads, with one thread as the limit, both measured alike, in turns; the slowest puts are in the note.

    The turn with the median ratio counts: two runs of either differ by more than the two do, by other work on the
    machine and by the journal that frees the blocks of the store before. So there are twice as many turns, and one."""
    count = bench.scaled(200_000)
    turns = [
        (measure(bench, "async", body_size, count, 4), measure(bench, "async", body_size, count, 1).per_s)
        for _ in range(2 * bench.runs + 1)
    ]
    (per_s, one), ratios = _median_turn([(four.per_s, one) for four, one in turns])
    four = next(four for four, _ in turns if four.per_s == per_s)
    slowest = ", ".join(f"p{percent:g} {four.percentile_us(percent):.0f} us" for percent in (50, 99, 99.9, 100))
    name = f"put into an empty store, four threads, {size_name(body_size)}"
    return Row(name, per_s, "messages/s", "one thread", one, target_ratio=1.0, note=f"{slowest}; {ratios}")


def measure(bench: Bench, mode: str, body_size: int, count: int, threads: int) -> flush_bench.Measured:
    with bench.empty(mode) as root:
        return flush_bench.measure_mode(root, mode, count, body_size, threads, lambda done: None)


def reference_puts(bench: Bench, body_size: int, count: int, *options: str, threads: int = 1) -> float:
    """Messages per second that the command of --against puts into an empty store; 0.0 when it has no --threads."""
    with bench.empty("reference") as root:
        words = ["bench", "--store", str(root), "--count", str(count), "--body-size", str(body_size)]
        if threads > 1:
            words += ["--threads", str(threads)]
        command = [*bench.against, *words, "--topics", "4", "--queues", "4", *options]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return float(answer["put"]["msgsPerSec"]) if answer.get("threads", 1) == threads else 0.0


def _put_once(bench: Bench, body_size: int, count: int) -> tuple[float, float, float]:
    """Messages per second until the last put returned, and until dispatch had caught up; CPU seconds of a put."""
    bodies = [bytes(stores.columns(1, body_size, keys=0, first=n).bodies) for n in range(64)]
    messages = [Message(f"BenchTopic{n % 4}", bodies[n], n // 4 % 4, born_timestamp_ms=1) for n in range(64)]
    with bench.empty("put") as root, open_store(root, read_only=False) as store:
        put_one = store.put
        for message in messages:
            put_one(message)
        began, cpu_began = time.perf_counter(), time.thread_time()
        for n in range(count):
            put_one(messages[n & 63])
        put_seconds, cpu = time.perf_counter() - began, time.thread_time() - cpu_began
        store.catch_up()
        return count / put_seconds, count / (time.perf_counter() - began), cpu / count


def bulk(bench: Bench) -> Iterator[Row]:
    """put_many with keys, async flush, until queues and index have caught up."""
    for body_size in (SMALL_BODY, KIB):
        count = bench.count(body_size)
        columns = list(stores.batches(count, body_size))
        copying = limits.copy_bytes_per_s()
        faulting = limits.fault_bytes_per_s(bench.folder)
        put_seconds, seconds, size = min(
            (_bulk_once(bench, columns) for _ in range(bench.runs)), key=lambda times: times[1]
        )
        note = (
            f"put_many alone {count / put_seconds / 1e6:.2f} M records/s, {size / put_seconds / 1e9:.2f} GB/s; "
            f"all {count / seconds / 1e6:.2f} M records/s; a new file's pages are mapped at {faulting / 1e9:.2f} GB/s"
        )
        if body_size == SMALL_BODY:
            yield Row("bulk put, dispatched, 100 B", count / seconds, "records/s", "memcpy",
                      copying / (size / count), target=2e6, note=note)  # fmt: skip
        else:
            yield Row("bulk put, dispatched, 1 KiB", size / seconds, "B/s", "memcpy", copying, target=0.8e9, note=note)


def _bulk_once(bench: Bench, batches: list[MessageColumns]) -> tuple[float, float, int]:
    """Seconds until the last put_many returned and until all was dispatched, and the log's bytes."""
    with bench.empty("bulk") as root, open_store(root, read_only=False) as store:
        store.put_many(stores.columns(20_000, 10, first=10**9))
        store.catch_up()
        start, began = store.max_log_offset, time.perf_counter()
        for batch in batches:
            store.put_many(batch)
        put_seconds = time.perf_counter() - began
        store.catch_up()
        return put_seconds, time.perf_counter() - began, store.max_log_offset - start


def memory(bench: Bench) -> Iterator[Row]:
    """Private memory of a process that puts 1,000,000 messages one by one."""
    count = bench.scaled(1_000_000)
    with bench.empty("memory") as root:
        work = f"from pathlib import Path; from tests.bench import puts; puts.put_singly(Path({str(root)!r}), {count})"
        process = subprocess.Popen([sys.executable, "-c", work])
        with PeakMemory(process.pid) as peak:
            if process.wait():
                raise SystemExit("the process that puts messages failed")
    yield Row("private memory of puts", peak.peak_bytes, "B", target=MEMORY_TARGET, note=f"{count:,} messages")


def put_singly(root: Path, count: int) -> None:
    """Puts `count` messages of 1 KiB with a key, and waits for queues and index."""
    body = os.urandom(KIB)
    with open_store(root, read_only=False) as store:
        for n in range(count):
            store.put(Message("BenchTopic", body, n & 3, b"KEYS\x01order%d\x02" % n))
        store.catch_up()
