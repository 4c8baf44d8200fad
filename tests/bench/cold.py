"""Reading what is not in the page cache: scan, check and recover beside `dd` on the same files, in turns."""

from __future__ import annotations

import math
import os
import shlex
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from store import check, open_store
from store.commitlog.scan import ScanRules, scan_log
from store.disk.filesystem import Filesystem
from tests.bench import stores
from tests.bench.context import KIB, Bench
from tests.bench.report import Row
from tests.bench.walks import plan_here

# A device that is never asked for more than one command at a time gives this share of its rate.
WANTED_RATIO = 0.9


def cold(bench: Bench) -> Iterator[Row]:
    """Bytes per second; the median of the runs, as a shared device's rate varies from run to run."""
    root = bench.store(KIB)
    for name, state, work in (
        ("scan", "closed", _scan),
        ("check", "closed", lambda root: list(check(root))),
        ("recover --abnormal", "nothing derived", lambda root: plan_here(root, "abnormal")),
    ):
        stores.put_into_state(root, state)
        folder = root if name == "check" else root / "commitlog"
        written = {path: _written_end(path) for path in sorted(folder.rglob("*")) if path.is_file()}
        size = sum(written.values())
        works = partial(_copy, written), partial(work, root)
        turns = [[_timed(written, one) for one in works] for _ in range(bench.runs)]
        theirs, ours = (size / statistics.median(seconds) for seconds in zip(*turns, strict=True))
        yield Row(f"{name}, {state}, not in the page cache", ours, "B/s", "dd", theirs, target_ratio=WANTED_RATIO,
                  note=f"{size / 1e9:.2f} GB")  # fmt: skip


def _timed(written: dict[Path, int], work: Callable[[], object]) -> float:
    """Seconds of the work, with none of the files in the page cache before."""
    fs = Filesystem()
    for path in written:
        descriptor = fs.open_read(path)
        os.fsync(descriptor.number)
        fs.dont_need(descriptor, 0, 0)
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


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
