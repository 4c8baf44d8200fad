"""Compares the start-up of commands with another revision's: `python -m tests.bench.startup --base REVISION`.

Both revisions run each command on the same small store, in turns, by this interpreter, with compiled kernels and with
bytecode: where PYTHONDONTWRITEBYTECODE is set, a start compiles 160 modules first, which takes as long as the rest.
Prints, for each command, the medians of the processes' times, and the median of the ratios of two neighbouring turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.gate import ROOT, checkout, find_base
from tests.support.golden import unpack

COMMANDS = (
    ("--help",),
    ("get", "TopicA", "--max", "1"),
    ("checkpoint", "show"),
    ("info",),
    ("recover", "--abnormal", "--dry-run"),
)


def timed(tree: Path, words: Sequence[str], bytecode: Path) -> float:
    """Return the seconds that a process of `tree` takes for a command."""
    variables = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode)}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "rmqctl", *words], cwd=tree, env=variables, check=True, capture_output=True, timeout=60
    )
    return time.perf_counter() - start


def compared(here: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """Return the medians of both, and of the ratios of the turns."""
    ratios = [one / other for one, other in zip(here, base, strict=True)]
    return statistics.median(here), statistics.median(base), statistics.median(ratios)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.startup", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--base", required=True, help="the revision to compare with")
    parser.add_argument("--turns", type=int, default=15, help="how often each revision runs each command (default 15)")
    options = parser.parse_args(arguments)
    base = find_base([options.base])
    if base is None:
        parser.error(f"{options.base} is not here, or is this revision")
    with tempfile.TemporaryDirectory() as name, checkout(base, Path(name)) as tree:
        unpack(ROOT / "fixtures" / "normal.tar.xz", Path(name))
        for one in (ROOT, tree):
            subprocess.run([sys.executable, ".build/kernels.py"], cwd=one, check=True, stdout=subprocess.DEVNULL)
        store = ("--store", str(Path(name, "normal", "store")))
        for words in COMMANDS:
            command = words if words == ("--help",) else (*store, *words)
            turns = [
                [timed(one, command, Path(name, "bytecode")) for one in (ROOT, tree)] for _ in range(options.turns + 1)
            ]
            # The first turn writes the bytecode.
            here, there, ratio = compared(*zip(*turns[1:], strict=True))
            print(f"{ratio:5.2f} of {base[:10]}  {here:.3f} s and {there:.3f} s  {' '.join(words)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
