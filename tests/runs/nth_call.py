"""Let the nth call to the file system fail, or kill the process at it, for every n and every changing command.

    python -m tests.runs.nth_call --failure eio --failure enospc --failure kill        all n; --every 7 takes a part

For each n a fresh store is changed by a command whose nth call fails. Then
    1. the command has said so with a StoreError, or has come to its end in spite of it
    2. put, recover, rebuild, truncate, clean, undo, purge, checkpoint rewrite: what is left keeps its promises and
       recovers, as after a power cut (tests/runs/power_cuts.py)
    3. timer rebuild, compaction mend, transaction resolve, delay rewrite-offsets, config rebuild-topics: after an undo
       of what was interrupted, or of a change that took a file that it could not read for damaged and said so, every
       file is as before and the command can be run again; else every file is as after it
       (tests/runs/whole_changes.py)
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
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from store.change.change import Change
from store.errors import StoreError
from store.files.filesystem import Filesystem
from tests.runs.power_cuts import WORKS, Promises, Work, verify
from tests.runs.whole_changes import CASES, verify_whole
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.simulated_disk import LOOKS, Cut

NAMES = [*WORKS, *CASES]
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


class PromisingTrial:
    """A change to a store with messages, which keeps what was promised by the time of a failure."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._promises = Promises()

    def change(self, fs: Filesystem) -> None:
        """Make the store, and change it through `fs`."""
        work = Work(self._folder / "store", Filesystem(), self._promises, random.Random(1))
        if not self._name.startswith("put"):
            work.put(12, "SYNC_FLUSH")
        work.disk = fs
        WORKS[self._name](work)

    def verify(self, operation: str, *, has_ended: bool) -> None:
        verify(Cut(self._folder, operation, self._promises.witness()))


class WholeTrial:
    """A change to a store that a broker wrote, done as a whole or not at all."""

    def __init__(self, folder: Path, name: str) -> None:
        self._name = name
        self._root = CASES[name].make(folder)
        self._done: Change | None = None

    def change(self, fs: Filesystem) -> None:
        """Change the store through `fs`."""
        self._done = CASES[self._name].apply(self._root, fs)

    def verify(self, operation: str, *, has_ended: bool) -> None:
        verify_whole(self._root, self._name, operation, self._done, has_ended=has_ended)


def is_killed(trial: PromisingTrial | WholeTrial, number: int) -> bool:
    """Change the store in a process that is killed at the call `number`; False when it has fewer calls."""
    child = os.fork()
    if not child:
        try:
            trial.change(KillingFilesystem(number))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), f"the changing process ended with the status {status}"
    return status != 0


def fails(folder: Path, name: str, number: int, failure: str) -> bool:
    """One run with a failure at the call `number`, verified; False when the change has fewer calls."""
    trial = PromisingTrial(folder, name) if name in WORKS else WholeTrial(folder, name)
    has_ended = True
    if failure == "kill":
        was_cut = is_killed(trial, number)
        has_ended = not was_cut
    else:
        fs = FaultyFilesystem(number, errno_code=FAILURES[failure])
        try:
            trial.change(fs)
        except StoreError:
            if fs.failed is None:
                raise
            has_ended = False
        was_cut = fs.failed is not None
    trial.verify(f"{name}, {failure} at call {number}", has_ended=has_ended)
    return was_cut


def runs(folder: Path, names: list[str], failures: list[str], every: int) -> Iterator[tuple[str, str, int]]:
    """All runs; gives the work, the failure and the number of each."""
    for name in names:
        for failure in failures:
            number, is_cut = 1, True
            while is_cut:
                (folder / "run").mkdir(parents=True)
                is_cut = fails(folder / "run", name, number, failure)
                shutil.rmtree(folder / "run")
                yield name, failure, number
                number += every


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failure", action="append", choices=FAILURES)
    parser.add_argument("--work", action="append", choices=NAMES)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="nth-call-"))
    done: Counter[tuple[str, str]] = Counter()
    works, failures = options.work or NAMES, options.failure or [*FAILURES]
    for name, failure, _ in runs(folder, works, failures, options.every):
        done[name, failure] += 1
    shutil.rmtree(folder)
    for (name, failure), count in done.items():
        print(f"{name}, {failure}: {count} runs")
    print("nothing promised was lost, every store recovered, check found nothing")


if __name__ == "__main__":
    main()
