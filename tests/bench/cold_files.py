"""Work whose files are not in the page cache."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from store.files.filesystem import Filesystem


def timed(files: Iterable[Path], work: Callable[[], object]) -> float:
    """Seconds of the work, with none of the files in the page cache before."""
    fs = Filesystem()
    for path in files:
        descriptor = fs.open_read(path)
        os.fsync(descriptor.number)
        fs.dont_need(descriptor, 0, 0)
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def run_command(root: Path, *words: str) -> None:
    """Run rmqctl on a store in a process of its own, whatever it finds."""
    command = [sys.executable, "-m", "rmqctl", "--store", str(root), *words]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
