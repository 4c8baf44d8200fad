"""How long a local Spark session takes to its first answer: `python -m tests.bench.spark_start [--runs 3]`.

In turns with Java's class archive (query/spark/class_archive.py) and without; seconds on the wall, and of CPU of Python
and JVM up to then. The archive is made by one more session before, in a folder that is deleted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from store.query.spark.class_archive import FOLDER_VARIABLE


def measure() -> dict[str, float]:
    """Starts a session in this process and asks for one answer."""
    from store.query.spark.session import open_session

    began = time.perf_counter()
    with open_session("local[2]") as spark:
        started = time.perf_counter()
        spark.range(10).count()
        answered = time.perf_counter()
        cpu = time.process_time() + children_cpu_s()
    return {"start": started - began, "first answer": answered - began, "CPU": cpu}


def children_cpu_s() -> float:
    """CPU seconds of this process's running descendants: the JVM, and Spark's Python workers."""
    processes = dict(_processes())
    family, older = {os.getpid()}, set[int]()
    while family != older:
        older, family = family, family | {pid for pid, (parent, _) in processes.items() if parent in family}
    return sum(ticks for pid, (_, ticks) in processes.items() if pid in family - {os.getpid()}) / os.sysconf(
        "SC_CLK_TCK"
    )


def _processes() -> Iterator[tuple[int, tuple[int, int]]]:
    """Every process with its parent and its ticks of CPU."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            yield int(path.parent.name), (int(fields[1]), int(fields[11]) + int(fields[12]))


def _in_process(folder: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.spark_start", "--here"]
    environment = {**os.environ, FOLDER_VARIABLE: folder}
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return dict(json.loads(run.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--here", action="store_true", help="one session in this process, as JSON")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure()))
        return
    with tempfile.TemporaryDirectory(prefix="rmqctl-bench-") as folder:
        # Its end, with the archive, is waited for: the JVM holds the output open.
        _in_process(folder)
        for _ in range(options.runs):
            for name, used in (("with the archive", folder), ("without", "")):
                figures = ", ".join(f"{step} {seconds:.2f} s" for step, seconds in _in_process(used).items())
                print(f"{name:18}{figures}")
        print(f"load average of the last minute {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
