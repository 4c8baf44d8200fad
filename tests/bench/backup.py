"""backup create, verify and restore of one store, in processes of their own, beside a plain copy, its sync and recover.

    python -m tests.bench.backup --store /data/store --folder /data/bench

The store is read once before, so that all find it in the page cache. The folder must be on the device to be measured.
A segment is changed by its time: the backup reads it again, and its bytes are there already. `recover` builds queues
and index of a copy that has none, as a restore does, and neither digests nor writes the log.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rmqctl.show import show_bytes


def seconds(*words: object) -> tuple[float, float]:
    """The time that a process takes, and its CPU time; its writes are durable before it begins."""
    os.sync()
    start, before = time.perf_counter(), os.times()
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)
    taken, after = time.perf_counter() - start, os.times()
    return taken, after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    root, folder, program = given.store, given.folder, (sys.executable, "-m", "rmqctl", "-q")
    segments = sorted((root / "commitlog").iterdir())
    size = sum(path.stat().st_size for path in segments)
    subprocess.run(["cat", *segments], check=True, stdout=subprocess.DEVNULL)
    plain, packed, copied = folder / "plain", folder / "packed", folder / "copy"
    create = (*program, "--store", root, "backup", "create", plain)
    copy = f"mkdir -p {copied} && cp -r {root}/commitlog {copied} && sync {copied}/commitlog/*"
    steps: dict[str, tuple[Callable[[], object], tuple[object, ...]]] = {
        "cp and sync": (lambda: None, ("sh", "-c", copy)),
        "recover of that copy": (lambda: None, (*program, "--store", copied, "recover", "--abnormal", "--yes")),
        "backup create": (lambda: shutil.rmtree(copied), create),
        "the same again": (lambda: None, create),
        "with one changed segment": (segments[0].touch, create),
        "backup create --compress": (
            lambda: None,
            (*program, "--store", root, "backup", "create", packed, "--compress"),
        ),
        "backup verify": (lambda: None, (*program, "backup", "verify", plain)),
        "backup restore": (lambda: None, (*program, "backup", "restore", plain, "--to", folder / "restored")),
        "backup restore, compressed": (
            lambda: shutil.rmtree(folder / "restored"),
            (*program, "backup", "restore", packed, "--to", folder / "unpacked"),
        ),
    }
    for name, (prepare, words) in steps.items():
        prepare()
        taken, cpu = seconds(*words)
        print(f"{name:28}{taken:8.2f} s{cpu:8.2f} s CPU  {show_bytes(size / taken)}/s", flush=True)
    for left in (plain, packed, folder / "unpacked"):
        shutil.rmtree(left)


if __name__ == "__main__":
    main()
