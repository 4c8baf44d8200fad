"""Command lines over a store of which another process shortens a file, between the look at its pages and their use.

python -m tests.support.shortened STORE SCRATCH JSON     one JSON list of exit code, stdout and stderr a case

A process of its own, because a page that is lost without a handler ends it by SIGBUS.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from store import kernels
from store.files.filesystem import Filesystem
from tests.support import processes
from tests.support.processes import Finished

needs_handler = pytest.mark.skipif(
    not kernels.COMPILED or sys.platform != "linux", reason="no handler: it is in the compiled kernels, for Linux"
)


@dataclass(frozen=True)
class Case:
    """A command line, the file that is shortened to `keep` bytes, and after which look at the file that happens."""

    words: Sequence[str]
    path: str
    keep: int
    look: int = 1


def run_cases(store: Path, scratch: Path, cases: Sequence[Case]) -> list[Finished]:
    """Run each case on a copy of the store; fail if a case kills the process."""
    program = [sys.executable, "-m", "tests.support.shortened", str(store), str(scratch)]
    done = processes.run([*program, json.dumps([asdict(case) for case in cases])])
    ends = [Finished(*json.loads(row)) for row in done.out.splitlines()]
    assert done.code == 0, f"{cases[len(ends) : len(ends) + 1]} ended the process with {done.code}: {done.err}"
    return ends


@contextmanager
def shortened_after_look(path: Path, keep: int, look: int) -> Iterator[None]:
    """Shorten the file after so many checks that found its pages readable."""
    populate, looks = Filesystem.populate, 0

    def look_and_shorten(fs: Filesystem, file: Path, view: memoryview, start: int, stop: int) -> bool:
        nonlocal looks
        is_readable = populate(fs, file, view, start, stop)
        looks += file == path and is_readable
        if looks == look and path.stat().st_size > keep:
            os.truncate(path, keep)
        return is_readable

    Filesystem.populate = look_and_shorten  # type: ignore[method-assign]
    try:
        yield
    finally:
        Filesystem.populate = populate  # type: ignore[method-assign]


def main(store: Path, scratch: Path, cases: Sequence[Case]) -> None:
    from tests.cli.running import rmqctl

    for number, case in enumerate(cases):
        copy = scratch / str(number)
        shutil.copytree(store, copy / "store")
        with shortened_after_look(copy / "store" / case.path, case.keep, case.look):
            run = rmqctl(*case.words, store=copy / "store")
        print(json.dumps([run.code, run.out, run.err]), flush=True)
        shutil.rmtree(copy)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [Case(**case) for case in json.loads(sys.argv[3])])
