"""Stores of very many queues: made by a bulk put, lost and recovered, and the commands that ask for all of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from store import Message, open_store
from store.structures.commitlog.bulk import MessageColumns
from tests.bench.context import Bench
from tests.bench.many import QUEUE_FILE_SIZE
from tests.bench.report import Row
from tests.bench.stores import forget_derived, put_into_state
from tests.support.many_queues import many_queues, queue_name

MADE_COUNT, MOST_COUNT = 20_000, 100_000
MADE_SECONDS = 5.0
"""For each of the operations on MADE_COUNT queues, all durable."""
COMMANDS = {
    "info": (["info"], 2.0),
    "doctor": (["doctor"], 10.0),
    "rebuild --dry-run": (["rebuild", "--dry-run"], 20.0),
    "report --html": (["report", "--html", os.devnull], 15.0),
    "lag": (["lag"], None),
}
"""The words after `rmqctl`, and the seconds that MOST_COUNT queues may take."""
GET_SECONDS = 0.3


def queues(bench: Bench) -> Iterator[Row]:
    """Wall seconds, the CPU time of each beside it; sizes follow the share."""
    made, most, seconds = bench.scaled(MADE_COUNT), bench.scaled(MOST_COUNT), MADE_SECONDS * bench.share
    with bench.empty("made") as root:
        yield _timed(f"bulk put, {made:,} new queues", lambda: _put(root, made), seconds)
        yield _timed(f"rebuild --dry-run, {made:,} queues", lambda: _run(root, "rebuild", "--dry-run"), seconds)
        forget_derived(root)
        yield _timed(f"recover, {made:,} lost queues", lambda: _run(root, "recover", "--yes"), seconds)
    with bench.empty("most") as root:
        many_queues(root, most, 2 * most, queue_file_size=QUEUE_FILE_SIZE)
        for name, (words, target) in COMMANDS.items():
            yield _timed(
                f"{name}, {most:,} queues", lambda words=words: _run(root, *words), target and target * bench.share
            )
        put_into_state(root, "crashed with queues")
        topic, queue_id = queue_name(7)
        words = ["get", topic, "--queue", str(queue_id), "--limit", "1"]
        yield _timed(f"get, {most:,} queues, crashed, an empty checkpoint", lambda: _run(root, *words), GET_SECONDS)


def _timed(name: str, work: Callable[[], object], target: float | None) -> Row:
    began, cpu_began = time.perf_counter(), _cpu_s()
    work()
    return Row(name, time.perf_counter() - began, "s", target=target, note=f"{_cpu_s() - cpu_began:.2f} s of CPU time")


def _cpu_s() -> float:
    """CPU seconds of this process and of its children."""
    return sum(os.times()[:4])


def _put(root: Path, count: int) -> None:
    messages = [Message(topic, b"", queue_id) for topic, queue_id in map(queue_name, range(count))]
    with open_store(root, read_only=False) as store:
        store.put_many(MessageColumns.of(messages))


def _run(root: Path, *words: str) -> None:
    """Run a command whose scratch files lie on the measured device too."""
    command = [sys.executable, "-m", "rmqctl", "--store", str(root), *words]
    scratch = {**os.environ, "TMPDIR": str(root.parent)}
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, env=scratch)
