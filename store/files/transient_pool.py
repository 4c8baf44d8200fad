"""TransientStorePool: locked write buffers, lent to the newest files of the commit log.

A message is first copied into a buffer that the kernel never writes out by itself. The commit service copies the buffer
into the file in runs of pages. Appending then never waits for a page that is being written out.

    borrow      a new MappedFile takes a buffer; an empty pool lends none, and the file does without
    give_back   when all of it was committed; it is zeroed, for the bytes behind a blank go into the file too

Locking the buffers in memory (mlock) keeps them from being swapped out. Where the user may not lock that much
(ulimit -l), the pool works without and says so in `note`.

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
        """Return a buffer of zeros, or None when all are lent."""
        try:
            return self._free.popleft()
        except IndexError:
            return None

    def give_back(self, buffer: memoryview) -> None:
        """Zero the buffer and lend it again."""
        ctypes.memset(_address(buffer), 0, self.buffer_size)
        self._free.append(buffer)

    def destroy(self) -> None:
        """Forget the free buffers; the last reference frees their memory, locked or not."""
        self._free.clear()

    def _lock_in_memory(self, buffer: memoryview) -> None:
        if self.note is None and _libc.mlock(ctypes.c_void_p(_address(buffer)), ctypes.c_size_t(self.buffer_size)):
            self.note = f"write buffers are not locked in memory: {os.strerror(ctypes.get_errno()).lower()}"


def _address(buffer: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
