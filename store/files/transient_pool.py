"""TransientStorePool: locked write buffers for the newest files of the commit log.

A message is first copied into a buffer that the kernel never writes out by itself. The commit service copies the buffer
into the file in runs of pages. So appending never waits for a page that is being written out.
    borrow      a new MappedFile takes a buffer; if the pool is empty, the file works without one
    give_back   after the commit of the whole buffer; the buffer is zeroed, as bytes after a blank are committed too
Locking the buffers in memory (mlock) prevents swapping. If the user may not lock that much memory (ulimit -l), the pool
works without locks, with a remark in `note`.

Source: TransientStorePool, 4.9.8.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque

from store.files.mapping import anonymous_map

_libc = ctypes.CDLL(None, use_errno=True)


class TransientStorePool:
    """`buffer_count` buffers of `buffer_size` bytes each, all allocated at once.

    Safe for several threads.
    """

    def __init__(self, buffer_count: int, buffer_size: int) -> None:
        self.buffer_size = buffer_size
        self.note: str | None = None
        """Why the buffers are not locked in memory, or None."""
        self._free: deque[memoryview] = deque()
        for _ in range(buffer_count):
            buffer = anonymous_map(buffer_size)
            self._lock_in_memory(buffer)
            self._free.append(buffer)

    @property
    def available_count(self) -> int:
        return len(self._free)

    def borrow(self) -> memoryview | None:
        """Return a buffer of zeros; None if all are in use."""
        try:
            return self._free.popleft()
        except IndexError:
            return None

    def give_back(self, buffer: memoryview) -> None:
        """Zero the buffer and return it to the pool."""
        ctypes.memset(_address(buffer), 0, self.buffer_size)
        self._free.append(buffer)

    def destroy(self) -> None:
        """Drop the free buffers; the last reference frees their memory, locked or not."""
        self._free.clear()

    def _lock_in_memory(self, buffer: memoryview) -> None:
        if self.note is None and _libc.mlock(ctypes.c_void_p(_address(buffer)), ctypes.c_size_t(self.buffer_size)):
            self.note = f"write buffers are not locked in memory: {os.strerror(ctypes.get_errno()).lower()}"


def _address(buffer: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
