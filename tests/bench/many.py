"""Stores of many files by queues, segments and index files: opening, one get, all states, a check, a recovery."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from store import CheckOptions, Message, check, open_store
from tests.bench.context import Bench
from tests.bench.report import Row
from tests.bench.stores import forget_derived, put_into_state
from tests.support.many_queues import many_queues, queue_name

QUEUE_COUNTS = (100, 1_000, 10_000, 100_000)
SEGMENT_COUNTS = (1, 10, 500)
INDEX_FILE_COUNTS = (1, 10, 100)
# Seconds that 100,000 queues may take.
TARGETS = {"open for writing": 3.0, "get": 0.5, "check": 10.0, "recover --abnormal": 15.0}
MOST_LOST = 10_000
# One message fills most of a segment, and KEYS_PER_FILE of them an index file.
QUEUE_FILE_SIZE = 6000
SEGMENT_SIZE, BODY_SIZE = 64 << 10, 40 << 10
KEYS_PER_FILE = 100
GROWN = {"mappedFileSizeCommitLog": str(SEGMENT_SIZE), "maxHashSlotNum": "500", "maxIndexNum": str(KEYS_PER_FILE + 1)}


def many(bench: Bench) -> Iterator[Row]:
    """What each takes in this process; the targets are those of 100,000 queues of one file each."""
    for count in [count for count in QUEUE_COUNTS if count <= bench.scaled(QUEUE_COUNTS[-1])]:
        with bench.empty(f"many-{count}") as root:
            many_queues(root, count, 2 * count, queue_file_size=QUEUE_FILE_SIZE)
            yield from _measure(root, f"{count:,} queues", queue_name(7), TARGETS)
            if count <= MOST_LOST:
                yield _recovery_without_queues(root, f"{count:,} queues")
    for count in SEGMENT_COUNTS:
        with bench.empty(f"segments-{count}") as root:
            _put(root, count, bytes(BODY_SIZE), keys=False)
            yield from _measure(root, f"{count} segments", ("Grown", 0), {})
    for count in INDEX_FILE_COUNTS:
        with bench.empty(f"index-files-{count}") as root:
            _put(root, count * KEYS_PER_FILE, b"", keys=True)
            yield from _measure(root, f"{count} index files", ("Grown", 0), {})


def _measure(root: Path, name: str, queue: tuple[str, int], targets: dict[str, float]) -> Iterator[Row]:
    for work_name, work in WORKS.items():
        began, cpu_began = time.perf_counter(), time.process_time()
        work(root, queue)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
        yield Row(f"{work_name}, {name}", seconds, "s", target=targets.get(work_name),
                  note=f"{cpu:.3f} s of CPU time")  # fmt: skip


def _recovery_without_queues(root: Path, name: str) -> Row:
    """The recovery builds every queue's folder and file, and makes them durable."""
    forget_derived(root)
    began, cpu_began = time.perf_counter(), time.process_time()
    _recover(root, ("", 0), {"mappedFileSizeConsumeQueue": QUEUE_FILE_SIZE})
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    return Row(f"recover --abnormal, {name} lost", seconds, "s", note=f"{cpu:.3f} s of CPU time")


def _put(root: Path, count: int, body: bytes, *, keys: bool) -> None:
    with open_store(root, read_only=False, settings=GROWN) as store:
        for number in range(count):
            store.put(Message.of("Grown", body, keys=[f"key-{number}"] if keys else []))
        store.catch_up()


def _get(root: Path, queue: tuple[str, int]) -> None:
    with open_store(root, settings=_settings(root)) as store:
        assert store.get(*queue, 0).messages


def _states(root: Path, queue: tuple[str, int]) -> None:
    with open_store(root, settings=_settings(root)) as store:
        assert store.queues()


def _recover(root: Path, queue: tuple[str, int], settings: Mapping[str, object] | None = None) -> None:
    put_into_state(root, "crashed with queues")
    open_store(root, read_only=False, recover=True, settings=settings or _settings(root)).close()


def _settings(root: Path) -> dict[str, str] | None:
    """Those that the store was written with, where they can't be inferred from its files."""
    return None if root.name.startswith("many-") else GROWN


WORKS: dict[str, Callable[[Path, tuple[str, int]], object]] = {
    "open for writing": lambda root, queue: open_store(root, read_only=False, settings=_settings(root)).close(),
    "get": _get,
    "states of all queues": _states,
    "check": lambda root, queue: list(check(root, CheckOptions(settings=_settings(root) or {}))),
    "recover --abnormal": _recover,
}
