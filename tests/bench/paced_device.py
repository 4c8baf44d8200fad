"""A device as slow as wanted: a process whose fdatasync, fsync and msync take a given time at least.

How well a group commit does depends on the device: the faster its sync, the more the hand-over between threads weighs.
A virtual machine's device may sync 40,000 times a second into its host's memory, where an NVMe drive syncs 10,000
times. The reference, a child of that process, meets the same device.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.bench.context import Bench
from tests.bench.report import Row

SOURCE = Path(__file__).with_suffix(".c")
PACE = "PACED_SYNC_NS"


def is_paced() -> bool:
    return PACE in os.environ


def rows(operation: str, bench: Bench, syncs_per_s: int) -> Iterator[Row]:
    """The rows of an operation in a process of its own, on a device of at most that many syncs a second."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        print(f"no device of {syncs_per_s} syncs a second: that takes Linux and a C compiler", file=sys.stderr)
        return
    library, found = bench.folder / "paced_device.so", bench.folder / "paced.json"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, SOURCE, "-ldl"], check=True)
    words = [operation, "--share", str(bench.share), "--runs", str(bench.runs), "--dir", str(bench.folder)]
    words += ["--json", str(found)] + (["--against", shlex.join(bench.against)] if bench.against else [])
    environment = {**os.environ, "LD_PRELOAD": str(library), PACE: str(1_000_000_000 // syncs_per_s)}
    subprocess.run(
        [sys.executable, "-m", "tests.bench", *words], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    for row in json.loads(found.read_text())["rows"]:
        one = Row.from_json(row)
        yield replace(one, operation=f"{one.operation}, {syncs_per_s:,} syncs/s")
