"""sql beside check, both as whole processes on the same store in turns, and sql on a fixture."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench import stores
from tests.bench.context import KIB, Bench, size_name
from tests.bench.report import Row
from tests.support.golden import golden

QUERY = "select topic, count(*) from messages group by topic"
MESSAGES = 1_750_000
"""2 GB of records."""


def sql(bench: Bench) -> Iterator[Row]:
    """The fixture's answer in seconds; over 2 GB the median time of sql against that of check in the same turns."""
    fixture = golden("aborted").store
    seconds = min(_process(fixture, "sql", QUERY) for _ in range(bench.runs + 2))
    yield Row("sql process, 128 KiB fixture", seconds, "s", target=0.8)
    count = bench.scaled(MESSAGES)
    root = bench.store(KIB, count)
    turns = [(_process(root, "check"), _process(root, "sql", QUERY)) for _ in range(bench.runs)]
    checked, asked = (statistics.median(times) for times in zip(*turns, strict=True))
    name = f"{size_name(KIB)} x {count:,}"
    yield Row(f"sql process, {name}", asked, "s", "check", checked, target=1.5 * checked,
              note=f"{stores.log_bytes(root) / asked / 1e9:.2f} GB/s")  # fmt: skip


def _process(root: Path, *words: str) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "rmqctl", "--quiet", "--store", str(root), *words]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began
