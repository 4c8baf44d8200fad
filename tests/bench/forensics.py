"""The forensic commands over a sound store of 1 KiB messages: whole processes, and the walks behind them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from store.files.filesystem import Filesystem
from store.verbs.salvage.salvage import SalvageReport, salvage_runs
from tests.bench import limits, stores
from tests.bench.context import KIB, MIB, SMALL_BODY, Bench, size_name
from tests.bench.report import Row

COMMANDS = (
    ("info", 1.0),
    ("lag", 1.0),
    ("find order00000000000007", 1.0),
    ("find --body nothing.like.this", 5.0),
    ("timeline", 5.0),
    ("simulate", 5.0),
    ("fingerprint", 5.0),
    ("doctor", 5.0),
    ("report --html {scratch}/report.html", 5.0),
)
RESIDENT_LIMIT = 500 * MIB
SALVAGE_BYTES_PER_S = 2e9
DOCTOR_BYTES_PER_S = 1.5e9
FIND_BYTES_PER_S = 2e9


def forensics(bench: Bench) -> Iterator[Row]:
    """Each command as a process with its resident memory; salvage's walk in process, by wall and by CPU time."""
    root, count = bench.store(KIB), bench.count(KIB)
    size, name = stores.log_bytes(root), f"{size_name(KIB)} x {count:,}"
    for command, target in COMMANDS:
        words = command.format(scratch=bench.folder).split()
        seconds, cpu, resident = min(_process(root, words) for _ in range(bench.runs))
        yield Row(f"{words[0]} {' '.join(words[1:2])[:6]}".strip() + f" process, {name}", seconds, "s", target=target,
                  note=f"{cpu:.2f} s of CPU time, {size / seconds / 1e9:.2f} GB/s, {resident // MIB} MiB resident "
                       f"of {RESIDENT_LIMIT // MIB}")  # fmt: skip
        if words[0] == "doctor":
            yield Row(f"doctor process, {name}", size / seconds, "B/s", target=DOCTOR_BYTES_PER_S * bench.share)
    yield from _finding(bench)
    wall, cpu = min(_salvage_walk(root) for _ in range(bench.runs + 1))
    yield Row(f"salvage walk, {name}", size / wall, "B/s", "memory read", limits.read_bytes_per_s(),
              target=SALVAGE_BYTES_PER_S, note=f"{size / cpu / 1e9:.2f} GB/s of CPU time")  # fmt: skip


def _finding(bench: Bench) -> Iterator[Row]:
    """find on 2 M messages: the index covers all, none or half of the log; a regular expression reads every body."""
    root, name = bench.store(SMALL_BODY), f"{size_name(SMALL_BODY)} x {bench.count(SMALL_BODY):,}"
    size, aside = stores.log_bytes(root), root / "index-aside"
    index = root / "index"
    for state, is_there in (("by index", True), ("without index", False)):
        if not is_there:
            index.rename(aside)
        try:
            seconds, cpu, _ = min(_process(root, ["find", "order00000000000007"]) for _ in range(bench.runs))
        finally:
            if not is_there:
                aside.rename(index)
        yield Row(f"find {state}, {name}", seconds, "s", target=1.5, note=f"{cpu:.2f} s of CPU time")
    started = min(_process(root, ["--version"])[1] for _ in range(bench.runs))
    seconds, cpu, _ = min(_process(root, ["find", "--body", "nothing.like.this"]) for _ in range(bench.runs))
    yield Row(f"find --body, {name}", size / seconds, "B/s", target=FIND_BYTES_PER_S,
              note=f"{size / max(cpu - started, 1e-9) / 1e9:.2f} GB/s of CPU time beyond start-up")  # fmt: skip


# A process counts the memory of the one that starts it as its own peak, so a small one starts it.
_STARTER = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
if code not in (0, 1):
    sys.exit(code)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def _process(root: Path, words: Sequence[str]) -> tuple[float, float, int]:
    """Seconds, CPU seconds and resident bytes of one command; one that fails has no figures."""
    command = [sys.executable, "-m", "rmqctl", "--store", str(root), *words]
    began = time.perf_counter()
    answer = subprocess.run([sys.executable, "-c", _STARTER, *command], check=False, capture_output=True, text=True)
    if answer.returncode:
        raise RuntimeError(f"{' '.join(words)} exited {answer.returncode}: {answer.stderr.strip()[-500:]}")
    cpu, resident = answer.stdout.split()
    return time.perf_counter() - began, float(cpu), int(resident) << 10


def _salvage_walk(root: Path) -> tuple[float, float]:
    """Seconds and CPU seconds of reading and grading every record."""
    began, cpu_began = time.perf_counter(), time.process_time()
    for _ in salvage_runs(root, Filesystem(), SalvageReport()):
        pass
    return time.perf_counter() - began, time.process_time() - cpu_began
