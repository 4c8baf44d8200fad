"""What was tried where a figure was not reached: `python -m tests.bench.tried [--dir DIR]`.

pages      making the pages of a new preallocated file writable: by touching them, by MADV_POPULATE_WRITE, by pwrite
device     one fdatasync behind one record and behind a group of seven, through pwrite and through the map
hand-over  sixteen threads that wait for one, without any disk: what the interpreter's lock alone allows, by its
           switch interval
"""

from __future__ import annotations

import argparse
import mmap
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

SIZE = 256 << 20
STEP = 2 << 20
MADV_POPULATE_WRITE = 23
RECORD_SIZE, GROUP = 1125, 7
THREADS, PUTS = 16, 20_000


def pages(folder: Path) -> None:
    """Three runs: on a virtual machine memory that was never used costs the host's faults as well."""

    def populate(file: int, area: mmap.mmap) -> None:
        for at in range(0, SIZE, STEP):
            area.madvise(MADV_POPULATE_WRITE, at, STEP)

    def write(file: int, area: mmap.mmap) -> None:
        for at in range(0, SIZE, STEP):
            os.pwrite(file, bytes(STEP), at)

    ways: dict[str, Callable[[int, mmap.mmap], None]] = {
        "touch": lambda file, area: None, "populate": populate, "pwrite": write,
    }  # fmt: skip
    for _ in range(3):
        for name, prepare in ways.items():
            with _file(folder) as file:
                area = mmap.mmap(file.fileno(), SIZE)
                began, cpu = time.perf_counter(), time.process_time()
                prepare(file.fileno(), area)
                np.frombuffer(area, np.uint8)[:: mmap.PAGESIZE] = 1
                wall, cpu = time.perf_counter() - began, time.process_time() - cpu
            print(f"pages, {name:9} {SIZE / wall / 1e9:6.2f} GB/s, CPU {cpu:.3f} s")


def device(folder: Path) -> None:
    for way in ("pwrite", "map"):
        for count in (1, GROUP):
            with _file(folder) as file:
                area, record = mmap.mmap(file.fileno(), SIZE), os.urandom(RECORD_SIZE * count)
                done, began = 0, time.perf_counter()
                while time.perf_counter() < began + 1:
                    at = done * len(record) % (SIZE - len(record))
                    if way == "map":
                        area[at : at + len(record)] = record
                    else:
                        os.pwrite(file.fileno(), record, at)
                    os.fdatasync(file.fileno())
                    done += 1
            print(f"device, {way:6} {count} record(s) a flush: {1e6 / done:6.0f} us")


def _file(folder: Path) -> IO[bytes]:
    file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
    os.posix_fallocate(file.fileno(), 0, SIZE)
    os.fsync(file.fileno())
    return file


class HandOver:
    """The skeleton of group commit: requests in a list, one service that answers all of them."""

    def __init__(self, work_us: int) -> None:
        self.work_s = work_us / 1e6
        self.waiting: list[threading.Lock] = []
        self.guard, self.alarm = threading.Lock(), threading.Event()
        self.over = False
        self.groups = 0

    def serve(self) -> None:
        while not self.over:
            self.alarm.wait(0.01)
            self.alarm.clear()
            with self.guard:
                group, self.waiting = self.waiting, []
            self.groups += bool(group)
            for request in group:
                request.release()

    def put(self) -> None:
        for _ in range(PUTS // THREADS):
            end = time.perf_counter() + self.work_s
            while time.perf_counter() < end:
                pass
            request = threading.Lock()
            request.acquire()
            with self.guard:
                self.waiting.append(request)
            self.alarm.set()
            request.acquire()


def hand_over() -> None:
    usual = sys.getswitchinterval()
    for interval_s in (usual, usual / 10, usual / 100):
        sys.setswitchinterval(interval_s)
        model = HandOver(work_us=4)
        service = threading.Thread(target=model.serve)
        threads = [threading.Thread(target=model.put) for _ in range(THREADS)]
        service.start()
        began, cpu = time.perf_counter(), time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        model.over = True
        service.join()
        print(
            f"hand-over, switch interval {interval_s * 1e6:5.0f} us: {PUTS / wall / 1e3:5.1f} k/s, "
            f"{PUTS / model.groups:.1f} a group, "
            f"{wall / model.groups * 1e6:.0f} us a group, CPU {cpu / PUTS * 1e6:.0f} us each"
        )
    sys.setswitchinterval(usual)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dir", type=Path)
    with tempfile.TemporaryDirectory(prefix="rmqctl-bench-", dir=parser.parse_args().dir) as folder:
        pages(Path(folder))
        device(Path(folder))
    hand_over()


if __name__ == "__main__":
    main()
