"""Reading what is not in the page cache: scan, check, recover and salvage beside `dd` on the same files, in turns.

The first figure of each is the operation in this process, whose start-up is over; the second is the whole command. A
salvage that writes is bounded by writing, so its walk has rows, and the whole one another.
"""

from __future__ import annotations

import math
import shlex
import statistics
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from store import check, open_store
from store.files.filesystem import Filesystem
from store.structures.commitlog.scan import ScanRules, scan_log
from store.verbs.salvage.salvage import SalvageReport, salvage_runs
from tests.bench import stores
from tests.bench.cold_files import run_command, timed
from tests.bench.context import KIB, Bench
from tests.bench.first_command import first_commands
from tests.bench.report import Row
from tests.bench.walks import plan_here

# A device that is never asked for more than one command at a time gives this share of its rate.
WANTED_RATIO = 0.9
LARGE_COUNT = 4_200_000
"""Messages of 1 KiB in the store of --large: 5 GB, beside which a start-up hardly counts."""


@dataclass(frozen=True, slots=True)
class ColdRead:
    """One that reads a store in some state.

    work           does it in this process
    command        the words of the command that does it, none where there is no such command
    reads_derived  whether it reads queues and index too
    """

    name: str
    state: str
    work: Callable[[Path], object]
    command: tuple[str, ...] = ()
    reads_derived: bool = False


def cold(bench: Bench) -> Iterator[Row]:
    """Bytes per second; the median of the runs, as a shared device's rate varies from run to run."""
    counts = [bench.count(KIB)] + [bench.scaled(LARGE_COUNT)] * bench.large
    for count in counts:
        root = bench.store(KIB, count)
        for one in OPERATIONS:
            stores.put_into_state(root, one.state)
            yield from _rows(bench, root, one)
    yield _salvage_to_store(bench, bench.store(KIB))
    yield from first_commands(bench)


def _rows(bench: Bench, root: Path, one: ColdRead) -> Iterator[Row]:
    """The operation in this process, and as a command where it has one, beside dd in turns."""
    folder = root if one.reads_derived else root / "commitlog"
    written = {path: _written_end(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    size = sum(written.values())
    works: dict[str, Callable[[], object]] = {"dd": partial(_copy, written), "in process": partial(one.work, root)}
    if one.command:
        works["the whole command"] = partial(run_command, root, *one.command)
    turns = [[timed(written, work) for work in works.values()] for _ in range(bench.runs)]
    rates = {name: size / statistics.median(times) for name, times in zip(works, zip(*turns, strict=True), strict=True)}
    theirs = rates.pop("dd")
    for name, rate in rates.items():
        yield Row(f"{one.name}, {one.state}, {size / 1e9:.2f} GB not in the page cache, {name}", rate, "B/s", "dd",
                  theirs, target_ratio=WANTED_RATIO)  # fmt: skip


def _salvage_to_store(bench: Bench, root: Path) -> Row:
    """A salvage to a new store on the same device; bytes of the log per second."""
    stores.put_into_state(root, "closed")
    files = dict.fromkeys(path for path in root.rglob("*") if path.is_file())
    seconds = []
    for _ in range(bench.runs):
        with bench.empty("salvaged") as target:
            seconds.append(timed(files, partial(run_command, root, "salvage", "--to", str(target))))
    rate = stores.log_bytes(root) / statistics.median(seconds)
    return Row("salvage --to, not in the page cache, the whole command", rate, "B/s", note="bounded by writing")


def _copy(written: dict[Path, int]) -> None:
    """Reads the written bytes of the files, one file after the other, by one shell."""
    lines = [
        f"dd if={shlex.quote(str(path))} of=/dev/null bs=4M count={math.ceil(end / (4 << 20))} status=none"
        for path, end in written.items()
    ]
    subprocess.run(["sh", "-ec", "\n".join(lines)], check=True)


def _written_end(path: Path) -> int:
    """The end of the bytes that were ever written; what is behind is a hole, or reserved."""
    return max((stop for _, stop in Filesystem().written_ranges(path, 0)), default=0)


def _scan(root: Path) -> None:
    with open_store(root, as_is=True) as store:
        for _ in scan_log(store.opened.log.segments.files, rules=ScanRules(check_crc=True, accept_v2=False)):
            pass


def _salvage(root: Path) -> None:
    for _ in salvage_runs(root, Filesystem(), SalvageReport()):
        pass


OPERATIONS = (
    ColdRead("scan", "closed", _scan),
    ColdRead("check", "closed", lambda root: list(check(root)), ("check",), reads_derived=True),
    ColdRead("salvage's walk", "closed", _salvage, ("salvage",), reads_derived=True),
    ColdRead("recover --abnormal", "nothing derived", lambda root: plan_here(root, "abnormal"),
              ("recover", "--abnormal", "--dry-run")),
)  # fmt: skip
