"""System calls that some systems lack, each with a fallback.

    posix_fallocate    one byte of each page is read and written back, so that the page gets a block
    fdatasync          F_FULLFSYNC if the system has it (macOS: fsync does not flush the device's cache), else fsync
    posix_fadvise      no advice
    sendfile           to a device, as on Linux; on other systems nothing is read into the cache
    RWF_NOWAIT         nothing counts as cached
    SEEK_DATA          everything counts as written
    sched_getaffinity  all processors
    ioprio_set         only the processor priority is lowered

Each call checks for the function, so that a test can remove it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import sys

from store.files.mapping import PAGE_SIZE

_LEAST_NICE = 19
# The numbers of ioprio_set (unistd.h of x86-64 and arm64), and its constants (linux/ioprio.h).
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_WHO_PROCESS, _IDLE_CLASS = 1, 3


def reserve_blocks(number: int, position: int, size: int) -> None:
    """Allocate blocks for a range of a file; the file grows to the range's end and keeps its bytes."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(number, position, size)
        return
    end = position + size
    if os.fstat(number).st_size < end:
        os.ftruncate(number, end)
    for at in (position, *range(position - position % PAGE_SIZE + PAGE_SIZE, end, PAGE_SIZE)):
        os.pwrite(number, os.pread(number, 1, at), at)


def sync_data(number: int) -> None:
    """Make a file's bytes durable."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(number)
    elif hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(number, fcntl.F_FULLFSYNC)
    else:
        os.fsync(number)


def advise(number: int, position: int, size: int, advice: str) -> None:
    """Call posix_fadvise with the advice of this name, if the system has it."""
    if hasattr(os, "posix_fadvise"):
        try:
            os.posix_fadvise(number, position, size, getattr(os, advice))
        except OSError:
            # Advice for a file system that takes none.
            return


def is_cached(number: int, position: int) -> bool:
    """Return whether the page cache has the byte at `position`."""
    if hasattr(os, "preadv") and hasattr(os, "RWF_NOWAIT"):
        with contextlib.suppress(OSError):
            return os.preadv(number, [bytearray(1)], position, os.RWF_NOWAIT) > 0
    return False


def read_in(number: int, position: int, size: int) -> int:
    """Read a range into the page cache without a copy; return the bytes read, 0 outside of Linux."""
    if not sys.platform.startswith("linux"):
        return 0
    sink = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        return os.sendfile(sink, number, position, size)
    finally:
        os.close(sink)


def next_written(number: int, position: int) -> int:
    """Return the next written position at or after `position`; OSError with ENXIO when there is none."""
    return os.lseek(number, position, os.SEEK_DATA) if hasattr(os, "SEEK_DATA") else position


def next_hole(number: int, position: int, size: int) -> int:
    """Return the end of the written range around `position`; a file in memory is searched page by page."""
    return os.lseek(number, position, os.SEEK_HOLE) if hasattr(os, "SEEK_HOLE") else size


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lower_priority() -> None:
    """Lower this process's processor and disk priority."""
    os.nice(_LEAST_NICE)
    number = _IOPRIO_SET.get(platform.machine())
    if sys.platform == "linux" and number is not None:
        ctypes.CDLL(None).syscall(number, _WHO_PROCESS, 0, _IDLE_CLASS << 13)
