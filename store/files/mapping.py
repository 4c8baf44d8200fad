"""File maps that keep no descriptor, and the kernel's advice and answers about their pages.

Python's own mmap keeps a duplicate of the descriptor: 100,000 mapped queue files would need as many descriptors. Here a
map is a memoryview over a ctypes array; the last view that refers to the array unmaps it.

A page that can't be read kills the process with SIGBUS when it is touched: a bad sector, or a file that another process
has shortened. `populate` reads the pages in first (MADV_POPULATE_READ, Linux 5.14) and reports the failure instead.
A page lost between that check and the touch is lost_pages.py's.

Every function takes the whole view that `map_file` gave, and places in it.
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
        raise _last_error()
    file = os.fstat(descriptor)
    watch = lost_pages.watch(address, size, path, (file.st_dev, file.st_ino), writable=writable)
    array = (ctypes.c_ubyte * size).from_address(address)
    # Unmapping at exit would take the pages from under threads that still run.
    weakref.finalize(array, _unmap, address, size, watch).atexit = False
    view = memoryview(array).cast("B")
    return view if writable else view.toreadonly()


def _unmap(address: int, size: int, watch: int) -> None:
    lost_pages.end_watch(watch)
    _libc.munmap(address, size)


def anonymous_map(size: int) -> memoryview:
    """Return memory of zeros that belongs to no file."""
    return memoryview(mmap.mmap(-1, size))


def is_mapped(view: memoryview) -> bool:
    """Return whether `map_file` made the view."""
    return isinstance(view.obj, ctypes.Array)


def populate(view: memoryview, start: int, stop: int) -> bool:
    """Read the pages of [start, stop) in; False when one of them can't be read, or was lost.

    The kernel reads ahead by itself, in large folios. MADV_WILLNEED for the next range makes its pages small ones,
    which halves the rate of a walk of a cold log.

    OSError with EINVAL where the kernel does not offer it.
    """
    if not sys.platform.startswith("linux"):
        # Elsewhere the number of the advice may mean something else.
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
    """Make the pages of [start, stop) writable at once, where the kernel offers that (Linux 5.14).

    A page that is read before it is written to takes two faults otherwise.
    """
    if sys.platform.startswith("linux"):
        _advise(view, start, stop, _MADV_POPULATE_WRITE)


def let_go(view: memoryview, start: int, stop: int) -> None:
    """Take the pages of [start, stop) out of this process; the next touch brings them back."""
    _advise(view, start, stop, mmap.MADV_DONTNEED)


def _advise(view: memoryview, start: int, stop: int, advice: int) -> int:
    """Return the errno of one madvise, 0 when it went well."""
    if stop <= start or not is_mapped(view):
        return 0
    first = start - start % PAGE_SIZE
    address = ctypes.addressof(view.obj)  # type: ignore[arg-type]
    while _libc.madvise(address + first, stop - first, advice):
        code = ctypes.get_errno()
        if code not in (errno.EINTR, errno.EAGAIN):
            return code
    return 0


def _last_error() -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))
