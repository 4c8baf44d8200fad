"""What the machine gives: the figures that every operation is held against, measured when they are asked for.

They are measured again for each operation, right beside it, because a shared machine is not equally fast all the time.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

BUFFER_SIZE = 256 << 20
SYNC_LOOP_S = 1.0
SYNC_FILE_SIZE = 64 << 20


def best_seconds(work: Callable[[], object], runs: int = 3) -> float:
    """The shortest of some runs: what others do on the machine can only make one longer."""
    best = math.inf
    for _ in range(runs):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def read_bytes_per_s() -> float:
    """Memory read bandwidth of one thread: the sum of an array that no cache holds."""
    words = np.ones(BUFFER_SIZE // 8, np.int64)
    return BUFFER_SIZE / best_seconds(words.sum)


def copy_bytes_per_s() -> float:
    """memcpy between two arrays that no cache holds, in bytes copied."""
    source, target = np.ones(BUFFER_SIZE // 8, np.int64), np.zeros(BUFFER_SIZE // 8, np.int64)
    return BUFFER_SIZE / best_seconds(lambda: np.copyto(target, source))


def crc_bytes_per_s() -> float:
    """isal's CRC32 over one big buffer in one thread."""
    from isal import isal_zlib

    data = np.ones(BUFFER_SIZE // 8, np.int64).tobytes()
    return BUFFER_SIZE / best_seconds(lambda: isal_zlib.crc32(data))


def fault_bytes_per_s(folder: Path) -> float:
    """Bytes per second of pages of a new preallocated file that a map makes writable: one store per page."""
    import mmap

    path = folder / "limit"
    with path.open("w+b", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, BUFFER_SIZE)
        pages = np.frombuffer(mmap.mmap(file.fileno(), BUFFER_SIZE), np.uint8)[:: mmap.PAGESIZE]
        began = time.perf_counter()
        pages[:] = 1
        seconds = time.perf_counter() - began
    path.unlink()
    return BUFFER_SIZE / seconds


def fdatasyncs_per_s(folder: Path, record_size: int) -> float:
    """Appends of one record to a preallocated file, each made durable, by one thread."""
    path, record = folder / "limit", os.urandom(record_size)
    with path.open("wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, SYNC_FILE_SIZE)
        os.fsync(file.fileno())
        count, position, began = 0, 0, time.perf_counter()
        while (elapsed := time.perf_counter() - began) < SYNC_LOOP_S:
            os.pwrite(file.fileno(), record, position)
            os.fdatasync(file.fileno())
            count, position = count + 1, (position + record_size) % (SYNC_FILE_SIZE - record_size)
    path.unlink()
    return count / elapsed


def write_bytes_per_s(folder: Path) -> float:
    """A large write that ends with one fdatasync."""
    path, data = folder / "limit", os.urandom(1 << 20)
    with path.open("wb", buffering=0) as file:
        began = time.perf_counter()
        for _ in range(BUFFER_SIZE // len(data)):
            file.write(data)
        os.fdatasync(file.fileno())
        elapsed = time.perf_counter() - began
    path.unlink()
    return BUFFER_SIZE / elapsed
