"""Memory that ends where the next page must not be touched, and kernels run to their end on what lies in it.

    |  … unused … | data | page without access |

A kernel that reads or writes one byte behind its data ends the process with SIGSEGV.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from store.formats.columns import COLUMN_NAMES, ScanOutcome
from store.kernels import compiled
from store.kernels.queue_table import QueueTable

CAPACITY = 64
_libc = ctypes.CDLL(None, use_errno=True)
_LEVELS = np.array([1000, 5000], np.int64)


class GuardedBuffer:
    """Room for up to `capacity` bytes in front of the guard page."""

    def __init__(self, capacity: int) -> None:
        size = -(-capacity // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map = mmap.mmap(-1, size + mmap.PAGESIZE)
        self._end = size
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + size
        if _libc.mprotect(ctypes.c_void_p(address), mmap.PAGESIZE, 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def place(self, data: bytes) -> memoryview:
        """The data, copied to the end of the room."""
        view = memoryview(self._map)[self._end - len(data) : self._end]
        view[:] = data
        return view


class Workspace:
    """Arrays used over and over by `survive`."""

    def __init__(self) -> None:
        self.columns = np.zeros((len(COLUMN_NAMES), CAPACITY), np.int64)
        self.state = np.zeros(8, np.int64)
        self.codes = np.zeros(CAPACITY, np.int64)
        self.slots = np.zeros(CAPACITY, np.int64)
        self.hashes = np.zeros(1 << 15, np.int64)
        self.records = np.zeros(1 << 15, np.int64)


_workspace: list[Workspace] = []


def survive(data: memoryview, *, accept_v2: bool = True, check_crc: bool = False) -> ScanOutcome:
    """Every kernel that reads a segment, compiled, over `data`; asserts that what they say is possible."""
    if not _workspace:
        _workspace.append(Workspace())
    work, kernels = _workspace[0], compiled()
    view = kernels.view(data)
    count = kernels.scan_records(view, 0, len(data), accept_v2, check_crc, work.columns, work.state)
    _check_columns(work.columns[:, :count], work.state, len(data))
    if count:
        _dispatch(kernels, view, work, count)
    start = kernels.find_record_start(view, 1, len(data), 0, accept_v2, work.columns)
    assert start == -1 or 1 <= start <= len(data) - 91
    return ScanOutcome(int(work.state[1]))


def _check_columns(columns: Any, state: Any, size: int) -> None:
    assert 0 <= state[0] <= size
    if columns.shape[1]:
        assert int((columns[0] + columns[1]).max()) <= state[0]
        assert int(columns[1].min()) >= 91
        for place, length in ((2, 3), (4, 5), (6, 7)):
            assert ((columns[place] >= columns[0]) & (columns[length] >= 0)).all()
            assert (columns[place] + columns[length] <= columns[0] + columns[1]).all()


def _dispatch(kernels: Any, view: Any, work: Workspace, count: int) -> None:
    """What follows a scan."""
    QueueTable().assign(kernels, view, work.columns, count, slots=work.slots)
    kernels.tags_codes(view, work.columns, count, _LEVELS, work.codes)
    kernels.first_bad_body(view, work.columns, 0, count)
    work_state = np.zeros(8, np.int64)
    kernels.first_bad_properties_crc(view, work.columns, 0, count, work_state)
    found = kernels.key_hashes(view, work.columns, 0, count, work.hashes, work.records, work_state)
    assert 0 < work_state[0] <= count
    assert found == 0 or 0 <= int(work.hashes[:found].min()) <= int(work.hashes[:found].max()) < 1 << 31
