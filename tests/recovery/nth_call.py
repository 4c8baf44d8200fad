"""Let the nth call to the file system fail, or kill the process at it, for every n and every changing command.

    python -m tests.recovery.nth_call --failure eio --failure enospc --failure kill        all n; --every 7 takes a part

For each n a fresh store is changed by put, recover, rebuild, truncate, clean or undo, whose nth call fails. Then
    1. the command has said so with a StoreError, or has come to its end in spite of it
    2. what is left keeps its promises and recovers, as after a power cut (tests/recovery/power_cuts.py)
A killed process loses no byte that it has written: the page cache is the kernel's.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from store.disk.filesystem import Filesystem
from store.errors import StoreError
from tests.recovery.power_cuts import WORKS, Promises, Work, verify
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.simulated_disk import LOOKS, Cut

FAILURES = {"eio": errno.EIO, "enospc": errno.ENOSPC, "kill": 0}


class KillingFilesystem(FaultyFilesystem):
    """Kills its process before the nth call that changes something."""

    def __init__(self, kill_at: int) -> None:
        super().__init__()
        self._left = kill_at

    def before(self, name: str, argument: Any) -> None:
        if name not in LOOKS:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)


def change(root: Path, name: str, fs: Filesystem, promises: Promises) -> None:
    """A store with messages, and one change to it through `fs`; notes what it has promised by then."""
    work = Work(root, Filesystem(), promises, random.Random(1))
    if not name.startswith("put"):
        work.put(12, "SYNC_FLUSH")
    work.disk = fs
    WORKS[name](work)


def fails(root: Path, name: str, number: int, failure: str) -> bool:
    """One run with a failure at the call `number`, verified; False when the change has fewer calls."""
    if failure == "kill":
        child = os.fork()
        if not child:
            change(root, name, KillingFilesystem(number), Promises())
            os._exit(0)
        was_cut, promises = os.waitpid(child, 0)[1] != 0, Promises()
    else:
        fs = FaultyFilesystem(number, errno_code=FAILURES[failure])
        promises = Promises()
        try:
            change(root, name, fs, promises)
        except StoreError:
            if fs.failed is None:
                raise
        was_cut = fs.failed is not None
    verify(Cut(root.parent, f"{name}, {failure} at call {number}", promises.witness()))
    return was_cut


def runs(folder: Path, names: list[str], failures: list[str], every: int) -> Iterator[tuple[str, str, int]]:
    """All runs; gives the work, the failure and the number of each."""
    for name in names:
        for failure in failures:
            number, is_cut = 1, True
            while is_cut:
                (folder / "run").mkdir(parents=True)
                is_cut = fails(folder / "run" / "store", name, number, failure)
                shutil.rmtree(folder / "run")
                yield name, failure, number
                number += every


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failure", action="append", choices=FAILURES)
    parser.add_argument("--work", action="append", choices=WORKS)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="nth-call-"))
    done: Counter[tuple[str, str]] = Counter()
    works, failures = options.work or [*WORKS], options.failure or [*FAILURES]
    for name, failure, _ in runs(folder, works, failures, options.every):
        done[name, failure] += 1
    shutil.rmtree(folder)
    for (name, failure), count in done.items():
        print(f"{name}, {failure}: {count} runs")
    print("nothing promised was lost, every store recovered, check found nothing")


if __name__ == "__main__":
    main()
