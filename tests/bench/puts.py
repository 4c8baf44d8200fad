"""Putting: one by one, in bulk, from sixteen threads with sync flush; and what it takes in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rmqctl import bench as flush_bench
from store import Message, open_store
from store.commitlog.bulk import MessageColumns
from tests.bench import limits, stores
from tests.bench.context import KIB, MIB, SMALL_BODY, Bench, size_name
from tests.bench.memory import PeakMemory
from tests.bench.report import Row

PUT_TARGETS = {KIB: 100e3, SMALL_BODY: 200e3}
SYNC_THREADS, SYNC_COUNT = 16, 20_000
MEMORY_TARGET = 300 * MIB


def put(bench: Bench) -> Iterator[Row]:
    """One thread, one message a call, async flush, dispatch running, no properties."""
    for body_size, target in PUT_TARGETS.items():
        count = bench.scaled(500_000)
        best, dispatched = max(_put_once(bench, body_size, count) for _ in range(bench.runs))
        yield Row(
            f"put, {size_name(body_size)}",
            best,
            "messages/s",
            target=target,
            note=f"{dispatched / 1e3:.0f} k messages/s until queues and index had caught up",
        )


def _put_once(bench: Bench, body_size: int, count: int) -> tuple[float, float]:
    """Messages per second until the last put returned, and until dispatch had caught up."""
    bodies = [bytes(stores.columns(1, body_size, keys=False, first=n).bodies) for n in range(64)]
    messages = [Message(f"BenchTopic{n % 4}", bodies[n], n // 4 % 4, born_timestamp_ms=1) for n in range(64)]
    with bench.empty("put") as root, open_store(root, read_only=False) as store:
        put_one = store.put
        for message in messages:
            put_one(message)
        began = time.perf_counter()
        for n in range(count):
            put_one(messages[n & 63])
        put_seconds = time.perf_counter() - began
        store.catch_up()
        return count / put_seconds, count / (time.perf_counter() - began)


def sync(bench: Bench) -> Iterator[Row]:
    """Sixteen threads, each put returns when its message is durable."""
    with bench.empty("sync") as root:
        root.mkdir()
        best: Row | None = None
        for number in range(bench.runs):
            rate = limits.fdatasyncs_per_s(root, KIB + 100)
            count = bench.scaled(SYNC_COUNT)
            found = flush_bench.measure_mode(root / str(number), "sync", count, KIB, SYNC_THREADS, lambda done: None)
            group = found.messages_per_flush
            row = Row(
                "put, sync flush, 16 threads", found.per_s, "messages/s", "fdatasync rate x group", rate * group,
                target_ratio=0.6, note=f"the device makes {rate:.0f} appends durable a second",
            )  # fmt: skip
            if best is None or (row.ratio or 0) > (best.ratio or 0):
                best = row
                groups = Row("messages per fdatasync", group, "messages", target=5)
        assert best is not None
        yield best
        yield groups


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
    """Private memory while 1,000,000 messages are put one by one."""
    count, body = bench.scaled(1_000_000), bytes(stores.columns(1, KIB).bodies)
    with PeakMemory() as before:
        time.sleep(0.05)
    with bench.empty("memory") as root, PeakMemory() as peak, open_store(root, read_only=False) as store:
        for n in range(count):
            store.put(Message("BenchTopic", body, n & 3, b"KEYS\x01order%d\x02" % n))
        store.catch_up()
    note = f"{count:,} messages; {before.peak_bytes // MIB} MiB of it were there before the store was opened"
    yield Row("private memory of puts", peak.peak_bytes, "B", target=MEMORY_TARGET, note=note)
