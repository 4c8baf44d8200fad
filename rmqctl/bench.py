"""Measures puts: latency and throughput by flush mode, beside the device's limits in the same run.

    limits   appends of one record, each with an fdatasync; a large write with one fdatasync; a memory copy
    async    messages go to the page cache and are flushed by time
    sync     a put returns after its flush
    transient  messages go to buffers from the transient pool, locked in memory

The ratio of sync is messages per second / (fdatasyncs per second x messages per flush). At 1 all time is the device's.
The ratio of the others is bytes per second / bytes per second of the memory copy.
"""

from __future__ import annotations

import math
import os
import threading
import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEGMENT_SIZE = 64 * 1024 * 1024
COPY_SIZE = 64 * 1024 * 1024
SYNC_LOOP_S = 1.0
SETTINGS = {
    "async": {"flushDiskType": "ASYNC_FLUSH", "transientStorePoolEnable": "false"},
    "sync": {"flushDiskType": "SYNC_FLUSH", "transientStorePoolEnable": "false"},
    "transient": {"flushDiskType": "ASYNC_FLUSH", "transientStorePoolEnable": "true"},
}

# Without a store to take sizes from: small files, so that their creation does not dominate the measurement.
GEOMETRY = {"mappedFileSizeCommitLog": str(SEGMENT_SIZE), "maxHashSlotNum": "1000", "maxIndexNum": "4000"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Figures of device and memory without a message store."""

    fdatasync_per_s: float
    write_bytes_per_s: float
    copy_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """One mode. Latencies are sorted nanoseconds."""

    mode: str
    record_size: int
    seconds: float
    latencies_ns: array[int]
    flush_count: int

    @property
    def per_s(self) -> float:
        return len(self.latencies_ns) / self.seconds

    @property
    def bytes_per_s(self) -> float:
        return self.per_s * self.record_size

    @property
    def messages_per_flush(self) -> float:
        return len(self.latencies_ns) / self.flush_count if self.flush_count else math.nan

    def percentile_us(self, percent: float) -> float:
        place = min(len(self.latencies_ns) - 1, math.ceil(len(self.latencies_ns) * percent / 100) - 1)
        return self.latencies_ns[max(0, place)] / 1000

    def ratio(self, limits: Limits) -> float:
        if self.mode == "sync":
            return self.per_s / (limits.fdatasync_per_s * max(1.0, self.messages_per_flush))
        return self.bytes_per_s / limits.copy_bytes_per_s

    def row(self, limits: Limits) -> dict[str, str | float | None]:
        percentiles = {f"p{percent:g}_us".replace(".", "_"): self.percentile_us(percent) for percent in _PERCENTS}
        return {
            "mode": self.mode,
            "messages_per_s": round(self.per_s),
            "bytes_per_s": round(self.bytes_per_s),
            **{name: round(value, 1) for name, value in percentiles.items()},
            "max_us": round(self.latencies_ns[-1] / 1000, 1),
            "flush_count": self.flush_count,
            "messages_per_flush": round(self.messages_per_flush, 1) if self.flush_count else None,
            # Three significant digits: a slow device or a loaded machine gives ratios below 0.0005.
            "ratio": float(f"{self.ratio(limits):.3g}"),
        }


_PERCENTS = (50, 90, 99, 99.9)


def measure_limits(folder: Path, record_size: int) -> Limits:
    """Return the device's and the memory's limits, measured in `folder`."""
    return Limits(_fdatasync_rate(folder, record_size), _write_rate(folder), _copy_rate())


def _fdatasync_rate(folder: Path, record_size: int) -> float:
    """Return appends per second to a preallocated file, as of a commit log, each with an fdatasync."""
    record = os.urandom(record_size)
    with (folder / "limit").open("wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, SEGMENT_SIZE)
        os.fsync(file.fileno())
        count, position, began = 0, 0, time.perf_counter()
        while (elapsed := time.perf_counter() - began) < SYNC_LOOP_S:
            os.pwrite(file.fileno(), record, position)
            os.fdatasync(file.fileno())
            count, position = count + 1, (position + record_size) % (SEGMENT_SIZE - record_size)
    (folder / "limit").unlink()
    return count / elapsed


def _write_rate(folder: Path) -> float:
    data = os.urandom(1024 * 1024)
    with (folder / "limit").open("wb", buffering=0) as file:
        began = time.perf_counter()
        for _ in range(COPY_SIZE // len(data)):
            file.write(data)
        os.fdatasync(file.fileno())
        elapsed = time.perf_counter() - began
    (folder / "limit").unlink()
    return COPY_SIZE / elapsed


def _copy_rate() -> float:
    source, target = memoryview(bytearray(COPY_SIZE)), memoryview(bytearray(COPY_SIZE))
    best = math.inf
    for _ in range(4):
        began = time.perf_counter()
        target[:] = source
        best = min(best, time.perf_counter() - began)
    return COPY_SIZE / best


def measure_mode(
    folder: Path,
    mode: str,
    count: int,
    body_size: int,
    threads: int,
    on_put: Callable[[int], None],
    given: Mapping[str, object] = GEOMETRY,
) -> Measured:
    """Put `count` messages from `threads` threads into a new store in `folder`, and measure each put."""
    from store import Message, open_store

    settings = {**given, **SETTINGS[mode]}
    message = Message(topic="FlushBench", body=os.urandom(body_size), born_timestamp_ms=1)
    with open_store(folder, settings=settings, read_only=False) as opened:
        record_size = opened.put(message).size
        before = opened.flush_count
        parts = [_Part(opened.put, message, count // threads + (n < count % threads)) for n in range(threads)]
        began = time.perf_counter()
        for part in parts:
            part.start()
        _wait(parts, on_put)
        seconds = time.perf_counter() - began
        flushes = opened.flush_count - before
    latencies = array("q", sorted(value for part in parts for value in part.latencies_ns))
    return Measured(mode, record_size, seconds, latencies, flushes)


def _wait(parts: list[_Part], on_put: Callable[[int], None]) -> None:
    """Wait until all threads are done, and raise the error of one; an interrupt stops them first."""
    try:
        while any(part.is_alive() for part in parts):
            for part in parts:
                part.join(0.1)
            on_put(sum(len(part.latencies_ns) for part in parts))
    except BaseException:
        for part in parts:
            part.stopped = True
        for part in parts:
            part.join()
        raise
    for part in parts:
        if part.error is not None:
            raise part.error


class _Part(threading.Thread):
    """One thread's puts, with the latency of each."""

    def __init__(self, put: Callable[[Any], Any], message: Any, count: int) -> None:
        super().__init__(daemon=True)
        self._put, self._message, self._count = put, message, count
        self.latencies_ns: array[int] = array("q")
        self.stopped = False
        self.error: BaseException | None = None

    def run(self) -> None:
        put, message, clock, note = self._put, self._message, time.perf_counter_ns, self.latencies_ns.append
        try:
            for _ in range(self._count):
                if self.stopped:
                    return
                began = clock()
                put(message)
                note(clock() - began)
        except BaseException as error:
            self.error = error


def histogram(measured: list[Measured]) -> list[dict[str, object]]:
    """Return messages by latency class and mode; a class ends at a power of two of microseconds."""
    counts: dict[int, dict[str, int]] = {}
    for one in measured:
        for value in one.latencies_ns:
            upper = 1 << max(0, (value // 1000).bit_length())
            counts.setdefault(upper, dict.fromkeys((m.mode for m in measured), 0))[one.mode] += 1
    return [{"up_to_us": upper, **counts[upper]} for upper in sorted(counts)]
