"""How fast the kernels are, beside what memory and isal can do in the same run.

    python -m tests.bench.bench_kernels [--scale 1.0] [--json]

Two segments in memory, made by bulk encoding with fixed seeds: 1 M records with 1 KiB bodies and 2 M with 100-byte
bodies (times --scale), each with a unique key, two keys and a tag. Every line is the best of several passes; a rate is
records per second, GB/s counts the bytes passed over, the ratio is to the limit named.

The build is everything that dispatch does with a scanned run, on one thread, into a mapped index file and a unit
buffer; the lines under it are its parts.
"""

from __future__ import annotations

import argparse
import json
import mmap
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from isal import isal_zlib
from tabulate import tabulate

from store import kernels
from store.formats.columns import COLUMN_NAMES
from store.kernels.encode import NUMBER_NAMES, QUEUE, QUEUE_ID, STORE_TIME
from store.structures.consumequeue.numbering import QueueTable

# As the walk has it: rows that are not a power of two apart, or they would fight for the same cache lines.
RUN_CAPACITY = 8192 + 64
PASSES = 7
QUEUES = 8
SLOT_COUNT, ENTRY_CAPACITY = 5_000_000, 20_000_000
INDEX_SIZE = 40 + 4 * SLOT_COUNT + 20 * ENTRY_CAPACITY
KEY_ROOM = 1 << 16
SHAPES = (("1 KiB", 1024, 1_000_000), ("100 B", 100, 2_000_000))


@dataclass
class Line:
    """One row of the table."""

    shape: str
    operation: str
    records_per_s: float
    bytes_per_s: float
    limit: str = ""
    ratio: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    lines: list[Line] = []
    for shape, body_size, count in SHAPES:
        lines.extend(measure(shape, body_size, max(RUN_CAPACITY, int(count * arguments.scale))))
    if arguments.json:
        print(json.dumps([asdict(line) for line in lines], indent=1))
        return
    rows = [
        (line.shape, line.operation, f"{line.records_per_s / 1e6:.1f}", f"{line.bytes_per_s / 1e9:.2f}", line.limit)
        + ((f"{line.ratio:.2f}",) if line.limit else ("",))
        for line in lines
    ]
    print(tabulate(rows, ("bodies", "operation", "M records/s", "GB/s", "limit", "ratio")))


def measure(shape: str, body_size: int, count: int) -> list[Line]:
    """Every operation over one segment."""
    segment, encode_s = make_segment(body_size, count)
    size = len(segment)

    def line(operation: str, seconds: float, limit: str = "", limit_s: float = 0.0) -> Line:
        return Line(shape, operation, count / seconds, size / seconds, limit, limit_s / seconds)

    memory_s = best(lambda: segment[: size // 8 * 8].view(np.uint64).max())
    copy_s = best_copy(segment)
    isal_s = best(lambda: isal_zlib.crc32(segment))
    lines = [line("limit: memory read", memory_s), line("limit: memcpy", copy_s), line("limit: isal", isal_s)]
    lines.append(line("encode", encode_s, "memcpy", copy_s))
    for check_crc, limit, limit_s in ((False, "memory read", memory_s), (True, "isal", isal_s)):
        name = "scan + CRC" if check_crc else "scan"
        for threads in (1, 2):
            seconds = best(lambda: scan_in_threads(segment, count, threads, check_crc))  # noqa: B023
            lines.append(line(f"{name}, {threads} threads", seconds, limit, limit_s))
    times = best_build(segment)
    lines.append(line("scan + CRC + build", sum(times.values())))
    lines.extend(line(f"  {name}", seconds) for name, seconds in times.items())
    return lines


def best(work: Callable[[], Any]) -> float:
    """Seconds of the fastest pass."""
    seconds = []
    for _ in range(PASSES):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def best_copy(segment: Any) -> float:
    """memcpy into memory that is there already."""
    target = np.zeros_like(segment)
    target[:] = 1
    return best(lambda: np.copyto(target, segment))


# Making.


def make_segment(body_size: int, count: int) -> tuple[Any, float]:
    """A segment of `count` records, and how long encoding it took."""
    rng = np.random.default_rng(body_size)
    bodies = rng.integers(0, 256, body_size * count, dtype=np.uint8)
    properties = make_properties(rng, count)
    numbers = np.zeros((len(NUMBER_NAMES), count), np.int64)
    numbers[QUEUE] = numbers[QUEUE_ID] = np.arange(count) % QUEUES
    numbers[STORE_TIME] = 1_700_000_000_000 + np.arange(count) // 100
    topic = np.frombuffer(b"BenchTopic", np.uint8)
    segment = np.zeros(count * (91 + body_size + len(topic) + properties.shape[1]) + 8, np.uint8)
    ends = np.arange(count + 1, dtype=np.int64)
    columns, state = np.empty((len(COLUMN_NAMES), count), np.int64), np.zeros(8, np.int64)

    def encode() -> None:
        done = kernels.encode_records(
            segment, 0, 0, bodies, ends * body_size, properties.reshape(-1), ends * properties.shape[1], topic,
            np.array([0, len(topic)], np.int64), np.zeros(40, np.uint8), numbers, 0, np.zeros(QUEUES, np.int64),
            columns, state,
        )  # fmt: skip
        assert done == count

    return segment, best(encode)


def make_properties(rng: np.random.Generator, count: int) -> Any:
    """Property strings of one length: two keys, a unique key, a tag."""
    digits = np.frombuffer(b"0123456789ABCDEF", np.uint8)

    def text(data: bytes) -> Any:
        return np.tile(np.frombuffer(data, np.uint8), (count, 1))

    def random(size: int) -> Any:
        return digits[rng.integers(0, 16, (count, size), dtype=np.uint8)]

    parts = [text(b"KEYS\x01"), random(10), text(b" "), random(10), text(b"\x02UNIQ_KEY\x01"), random(32)]
    return np.ascontiguousarray(np.concatenate([*parts, text(b"\x02WAIT\x01true\x02TAGS\x01TagA")], axis=1))


# Running.


def scan_in_threads(segment: Any, count: int, threads: int, check_crc: bool) -> None:
    """Scans the segment in as many parts as there are threads."""
    size = len(segment)
    row = np.zeros((len(COLUMN_NAMES), 1), np.int64)
    starts = [kernels.find_record_start(segment, size * n // threads, size, 0, False, row) for n in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        found = pool.map(lambda part: scan(segment, *part, check_crc), zip(starts, [*starts[1:], size], strict=True))
        assert sum(found) == count


def scan(segment: Any, position: int, limit: int, check_crc: bool) -> int:
    columns, state = np.empty((len(COLUMN_NAMES), RUN_CAPACITY), np.int64), np.zeros(8, np.int64)
    found = 0
    while True:
        found += kernels.scan_records(segment, position, limit, False, check_crc, columns, state)
        position = int(state[0])
        if state[1] != 0:
            return found


def best_build(segment: Any) -> dict[str, float]:
    """Seconds of each part of the fastest build."""
    builds = []
    for _ in range(PASSES):
        with tempfile.TemporaryFile() as file:
            file.truncate(INDEX_SIZE)
            index = mmap.mmap(file.fileno(), INDEX_SIZE)
            builds.append(build(segment, np.frombuffer(index, np.uint8)))
    return min(builds, key=lambda times: sum(times.values()))


def build(segment: Any, index: Any) -> dict[str, float]:
    """Scan, verify, and build units and index of a whole segment."""
    table = QueueTable()
    times = dict.fromkeys(("scan + CRC", "queues", "requests", "units", "index"), 0.0)
    columns, state = np.empty((len(COLUMN_NAMES), RUN_CAPACITY), np.int64), np.zeros(8, np.int64)
    slots, codes, order = (np.empty(RUN_CAPACITY, np.int64) for _ in range(3))
    hashes, records, key_state = np.empty(KEY_ROOM, np.int64), np.empty(KEY_ROOM, np.int64), np.zeros(8, np.int64)
    starts, units = np.empty(QUEUES + 1, np.int64), np.empty(20 * RUN_CAPACITY, np.uint8)
    header, levels = np.array([0, 0, 0, 0, 0, 1], np.int64), np.array([1000], np.int64)
    last = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal last
        now = time.perf_counter()
        times[name] += now - last
        last = now

    while state[1] == 0:
        count = kernels.scan_records(segment, int(state[0]), len(segment), False, True, columns, state)
        lap("scan + CRC")
        table.assign(segment, columns, count, slots=slots)
        lap("queues")
        found = kernels.dispatch_requests(segment, columns, 0, count, levels, codes, hashes, records, key_state)
        lap("requests")
        kernels.order_by_queue(slots, count, len(table), order, starts)
        kernels.write_units(units, 0, order, 0, count, columns, codes)
        lap("units")
        kernels.put_index_entries(index, SLOT_COUNT, ENTRY_CAPACITY, hashes, records, 0, found, columns, header)
        lap("index")
    return times


if __name__ == "__main__":
    main()
