"""File maps that keep no descriptor, and madvise calls for their pages.

Python's own mmap keeps a duplicate of the descriptor: 100,000 mapped queue files would need as many descriptors. Here a
map is a memoryview over a ctypes array; the last view of the array unmaps it.
Touching an unreadable page kills the process with SIGBUS: a bad sector, or a file that another process has shortened.
`populate` reads pages into memory first (MADV_POPULATE_READ, Linux 5.14) and reports the failure instead.
lost_pages.py handles pages lost between that check and the touch.
Every function takes the whole view from `map_file`, and positions in it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
import weakref
from pathlib import Path

from store.files import lost_pages

PAGE_SIZE = mmap.PAGESIZE
# asm-generic/mman-common.h and asm-generic/errno.h; Python has no names for them.
_MADV_POPULATE_READ = 22
_MADV_POPULATE_WRITE = 23
_EHWPOISON = 133
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def map_file(descriptor: int, size: int, path: Path, *, writable: bool) -> memoryview:
    """Map the first `size` bytes of an open file, shared; the descriptor may be closed at once."""
    if not size:
        return memoryview(b"")
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    address = _libc.mmap(None, size, protection, mmap.MAP_SHARED, descriptor, 0)
    if address == _FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    file = os.fstat(descriptor)
    watch = lost_pages.watch(address, size, path, (file.st_dev, file.st_ino), writable=writable)
    array = (ctypes.c_ubyte * size).from_address(address)
    # Unmapping at exit would remove pages that running threads still use.
    weakref.finalize(array, _unmap, address, size, watch).atexit = False
    view = memoryview(array).cast("B")
    return view if writable else view.toreadonly()


def _unmap(address: int, size: int, watch: int) -> None:
    lost_pages.end_watch(watch)
    _libc.munmap(address, size)


def anonymous_map(size: int) -> memoryview:
    """Return zeroed memory without a file."""
    return memoryview(mmap.mmap(-1, size))


def is_mapped(view: memoryview) -> bool:
    """Return whether `map_file` made the view."""
    return isinstance(view.obj, ctypes.Array)


def populate(view: memoryview, start: int, stop: int) -> bool:
    """Read the pages of [start, stop) into memory; return False if one is unreadable or lost.

    The kernel reads ahead by itself, in large folios. MADV_WILLNEED for the next range would create small pages, and
    halve the rate of a scan of a cold log.
    OSError with EINVAL if the kernel can't do it.
    """
    if not sys.platform.startswith("linux"):
        # On other systems the number of the advice may have another meaning.
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    if lost_pages.count() and _has_lost(view, start, stop):
        return False
    code = _advise(view, start, stop, _MADV_POPULATE_READ)
    if code in (errno.EFAULT, errno.EIO, _EHWPOISON):
        return False
    if code:
        raise OSError(code, os.strerror(code))
    return True


def _has_lost(view: memoryview, start: int, stop: int) -> bool:
    address = ctypes.addressof(view.obj)  # type: ignore[arg-type]
    return lost_pages.first_lost(address + start, address + stop) < address + stop


def make_writable(view: memoryview, start: int, stop: int) -> None:
    """Make the pages of [start, stop) writable at once, if the kernel can (Linux 5.14).

    Otherwise a page that is read and then written takes two faults.
    """
    if sys.platform.startswith("linux"):
        _advise(view, start, stop, _MADV_POPULATE_WRITE)


def let_go(view: memoryview, start: int, stop: int) -> None:
    """Drop the pages of [start, stop) from this process's memory; the next touch reads them again."""
    _advise(view, start, stop, mmap.MADV_DONTNEED)


def _advise(view: memoryview, start: int, stop: int, advice: int) -> int:
    """Return the errno of one madvise, 0 for success."""
    if stop <= start or not is_mapped(view):
        return 0
    first = start - start % PAGE_SIZE
    address = ctypes.addressof(view.obj)  # type: ignore[arg-type]
    while _libc.madvise(address + first, stop - first, advice):
        code = ctypes.get_errno()
        if code not in (errno.EINTR, errno.EAGAIN):
            return code
    return 0
