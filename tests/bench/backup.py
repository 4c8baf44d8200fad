"""backup create, verify and restore of one store, in processes of their own, beside a plain copy and its sync.

    python -m tests.bench.backup --store /data/store --folder /data/bench

The store is read once before, so that all find it in the page cache. The folder must be on the device to be measured.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from rmqctl.show import show_bytes


def seconds(*words: object) -> float:
    """The time that a process takes; its writes are durable before it begins."""
    os.sync()
    start = time.perf_counter()
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    root, folder, program = given.store, given.folder, (sys.executable, "-m", "rmqctl", "-q")
    size = sum(path.stat().st_size for path in (root / "commitlog").iterdir())
    subprocess.run(["cat", *sorted((root / "commitlog").iterdir())], check=True, stdout=subprocess.DEVNULL)
    plain, packed = folder / "plain", folder / "packed"
    copy = f"cp -r {root}/commitlog {folder}/copy && sync {folder}/copy/*"
    steps: dict[str, tuple[object, ...]] = {
        "cp and sync": ("sh", "-c", copy),
        "backup create": (*program, "--store", root, "backup", "create", plain),
        "the same again": (*program, "--store", root, "backup", "create", plain),
        "backup create --compress": (*program, "--store", root, "backup", "create", packed, "--compress"),
        "backup verify": (*program, "backup", "verify", plain),
        "backup restore": (*program, "backup", "restore", plain, "--to", folder / "restored"),
        "backup restore, compressed": (*program, "backup", "restore", packed, "--to", folder / "unpacked"),
    }
    for name, words in steps.items():
        taken = seconds(*words)
        print(f"{name:28}{taken:8.2f} s  {show_bytes(size / taken)}/s", flush=True)
        for left in ("copy", "restored", "unpacked"):
            shutil.rmtree(folder / left, ignore_errors=True)
    shutil.rmtree(plain)
    shutil.rmtree(packed)


if __name__ == "__main__":
    main()
