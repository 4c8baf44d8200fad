"""How fast `receive` copies a log from `send` in another process.

    python -m tests.bench.receive [--dir DIR] [--records N]

Beside each run stands the rate at which the same bytes are written and synced in that moment. The folder's device
bounds both; a folder in memory shows the programs alone. Bytes per second of CPU, of the receiver and of the sender,
say what both could do on an idle machine: each has a core of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from store import Message, open_store

SETTINGS = {"mappedFileSizeCommitLog": 1 << 28}
BLOCK_BYTES = 4 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--dir", type=Path, help="folder for both stores")
    parser.add_argument("--records", type=int, default=600_000, help="records of a KiB")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rmqctl-bench-", dir=given.dir) as name:
        folder = Path(name)
        size = _make_log(folder / "master", given.records)
        words = [sys.executable, "-m", "rmqctl", "--store", str(folder / "master"), "send", "--listen", "127.0.0.1:0"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as sender:
            assert sender.stderr is not None
            address = sender.stderr.readline().split()[-1]
            for _ in range(given.runs):
                own_s, sender_s = _children_cpu_s(), _cpu_s(sender.pid)
                received = _receive(address, folder / "copy")
                own_s, sender_s = _children_cpu_s() - own_s, _cpu_s(sender.pid) - sender_s
                written = _write(folder / "written", size)
                print(
                    f"received {received / 1e6:.0f} MB/s; per second of CPU {size / own_s / 1e6:.0f} MB received, "
                    f"{size / sender_s / 1e6:.0f} MB sent; written and synced {written / 1e6:.0f} MB/s"
                )
            sender.terminate()


def _make_log(root: Path, records: int) -> int:
    body = os.urandom(1024)
    with open_store(root, read_only=False, settings=SETTINGS) as store:
        for number in range(records):
            store.put(Message("T", body, number % 4))
        return store.max_log_offset


def _receive(address: str, to: Path) -> float:
    words = [sys.executable, "-m", "rmqctl", "--format", "json", "receive", address, "--to", str(to)]
    document = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    shutil.rmtree(to)
    return float(document["bytes_per_second"])


def _children_cpu_s() -> float:
    """CPU of the processes that have ended, their start-up included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu_s(process_id: int) -> float:
    """CPU of a process that runs."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _write(path: Path, size: int) -> float:
    block, began = os.urandom(BLOCK_BYTES), time.monotonic()
    with path.open("wb", buffering=0) as file:
        for _ in range(size // BLOCK_BYTES):
            file.write(block)
        os.fdatasync(file)
    path.unlink()
    return size / (time.monotonic() - began)


if __name__ == "__main__":
    main()
