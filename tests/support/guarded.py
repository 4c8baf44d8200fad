"""Memory between two pages that must not be touched, and kernels run to their end on what lies in it.

    | page without access | … unused … | data | page without access |
    | page without access | data | … unused … | page without access |

A kernel that reads or writes one byte behind its data, or before it, ends the process with SIGSEGV.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from store import kernels
from store.formats.columns import COLUMN_NAMES, ScanOutcome
from store.formats.index_page import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from store.formats.queue_unit import UNIT_SIZE
from store.kernels.index import FOUND_COUNT, WRONG_ENTRIES
from store.structures.consumequeue.numbering import QueueTable

CAPACITY = 64
_libc = ctypes.CDLL(None, use_errno=True)
_LEVELS = np.array([1000, 5000], np.int64)

# What kernels are given besides the data: sound numbers, those next to them, and the ends of what fits.
INDEX_CAPACITY = 3000
_LONGS = (0, 1, -1, 19, 20, 21, 5000, (1 << 31) - 1, -(1 << 31), (1 << 62), (1 << 63) - 1, -(1 << 63))
_SLOT_COUNTS = (1, 2, 7, 100)
_ENTRY_COUNTS = (5, 0, 1, 2, 40, -1, (1 << 31) - 1, -(1 << 31))
_HURTFUL_SLOT_COUNTS = (0, -1, 749, 750, (1 << 31) - 1, -(1 << 31))
_FILLINGS = tuple(word * (INDEX_CAPACITY // 4) for word in (bytes(4), b"\xff" * 4, b"\0\0\0\1", b"\x7f\xff\xff\xff"))


class GuardedBuffer:
    """Room for up to `capacity` bytes between the guard pages."""

    def __init__(self, capacity: int) -> None:
        size = -(-capacity // mmap.PAGESIZE) * mmap.PAGESIZE
        self._start, self._end = mmap.PAGESIZE, mmap.PAGESIZE + size
        self._map = mmap.mmap(-1, self._end + mmap.PAGESIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for guard in (address, address + self._end):
            if _libc.mprotect(ctypes.c_void_p(guard), mmap.PAGESIZE, 0) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")

    def place(self, data: bytes, *, in_front: bool = False) -> memoryview:
        """Return the data, copied to the end of the room, or to its front."""
        start = self._start if in_front else self._end - len(data)
        view = memoryview(self._map)[start : start + len(data)]
        view[:] = data
        return view


class Workspace:
    """Arrays that `survive` uses again in each call."""

    def __init__(self) -> None:
        self.columns = np.zeros((len(COLUMN_NAMES), CAPACITY), np.int64)
        self.state = np.zeros(8, np.int64)
        self.codes = np.zeros(CAPACITY, np.int64)
        self.slots = np.zeros(CAPACITY, np.int64)
        self.hashes = np.zeros(1 << 15, np.int64)
        self.records = np.zeros(1 << 15, np.int64)
        self.order = np.zeros(CAPACITY, np.int64)
        self.starts = np.zeros(CAPACITY + 1, np.int64)
        self.header = np.zeros(6, np.int64)
        self.newest = memoryview(bytearray(SLOT_SIZE * max(_SLOT_COUNTS)))
        self.units = GuardedBuffer(UNIT_SIZE * CAPACITY)
        self.index = GuardedBuffer(INDEX_CAPACITY)


_workspace: list[Workspace] = []


def survive(data: memoryview, *, accept_v2: bool = True, check_crc: bool = False, variant: int = 0) -> ScanOutcome:
    """Run every compiled kernel over `data` and its results, and assert that the results are possible.

    variant  chooses the numbers that are given besides; where the files that are written lie, how long they are
    """
    if not _workspace:
        _workspace.append(Workspace())
    work = _workspace[0]
    count = kernels.scan_records(data, 0, len(data), accept_v2, check_crc, work.columns, work.state)
    _check_columns(work.columns[:, :count], work.state, len(data))
    if count:
        _dispatch(data, work, count, variant)
    _follow_chains(data, work, _SLOT_COUNTS[variant % len(_SLOT_COUNTS)])
    start = kernels.find_record_start(data, 1, len(data), 0, accept_v2, work.columns)
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


def _dispatch(data: memoryview, work: Workspace, count: int, variant: int) -> None:
    """Run the kernels that follow a scan."""
    table = QueueTable()
    table.assign(data, work.columns, count, slots=work.slots)
    kernels.tags_codes(data, work.columns, count, _LEVELS, work.codes)
    kernels.first_bad_body(data, work.columns, 0, count)
    work_state = np.zeros(8, np.int64)
    kernels.first_bad_properties_crc(data, work.columns, 0, count, work_state)
    found = kernels.key_hashes(data, work.columns, 0, count, variant % 2, work.hashes, work.records, work_state)
    assert 0 < work_state[0] <= count
    assert found == 0 or 0 <= int(work.hashes[:found].min()) <= int(work.hashes[:found].max()) < 1 << 31
    _read_requests(data, work, count, found, variant % 2)
    _compare(data, work, count)
    _write_queues(work, count, len(table), variant)
    _write_index(work, found, variant)


def _read_requests(data: memoryview, work: Workspace, count: int, found: int, with_tags: int) -> None:
    """Compute codes and hashes at once, and compare them with those of the two single kernels."""
    codes, hashes, state = work.codes[:count].copy(), work.hashes[:found].copy(), np.zeros(1, np.int64)
    again = kernels.dispatch_requests(
        data, work.columns, 0, count, _LEVELS, work.codes, with_tags, work.hashes, work.records, state
    )
    assert again == found
    assert (work.codes[: state[0]] == codes[: state[0]]).all()
    assert (work.hashes[:found] == hashes).all()


def _compare(data: memoryview, work: Workspace, count: int) -> None:
    """Compare the records with themselves as copies, and read the properties that units repeat."""
    rows, found = np.arange(count), np.zeros((3, count), np.int64)
    kernels.first_differences(data, data, work.columns, rows, work.columns[0, :count].copy(), found[0])
    assert (found[0] == -1).all()
    kernels.timer_properties(data, work.columns, rows, *found)
    assert 0 <= kernels.rows_with_property(data, work.columns, count, b"KEYS", rows) <= count


def _write_queues(work: Workspace, count: int, queue_count: int, variant: int) -> None:
    kernels.order_by_queue(work.slots, count, queue_count, work.order, work.starts)
    queued = int(work.starts[queue_count])
    assert sorted(work.order[:queued].tolist()) == np.flatnonzero(work.slots[:count] >= 0).tolist()
    queues, firsts = np.arange(queue_count, dtype=np.int64), np.zeros(queue_count, np.int64)
    ends = np.full(queue_count, _LONGS[variant % len(_LONGS)], np.int64)
    kept = kernels.pass_repeats(work.order, work.starts, queues, queue_count, work.columns, ends, firsts)
    assert ((work.starts[queues[:kept]] <= firsts[:kept]) & (firsts[:kept] < work.starts[queues[:kept] + 1])).all()
    first, last = (_LONGS[variant // step % len(_LONGS)] for step in (1, 5))
    stop = kernels.find_break(work.order, 0, queued, work.columns, first, last)
    assert 0 <= stop <= queued
    # Room for all of them, or up to two units less, or some bytes more.
    size = max(UNIT_SIZE * queued + variant % 61 - 40, 0)
    units = work.units.place(_FILLINGS[0][:size], in_front=bool(variant & 8))
    end = kernels.write_units(units, first, work.order, 0, queued, work.columns, work.codes)
    assert kernels.first_unit_between(units, _LONGS[variant % len(_LONGS)], 5, 5) <= size // UNIT_SIZE
    assert 0 <= kernels.count_leading_units(units, np.empty(2, np.int64)) <= size // UNIT_SIZE
    assert end == max(first, 0) or end <= size
    breaks, stops = np.zeros(queue_count, np.int64), work.starts[1 : queue_count + 1].copy()
    given = work.starts[:queue_count].copy(), stops, queue_count, work.columns, work.codes, queues, ends
    kernels.write_following_units(work.order, *given, units, breaks)
    assert (breaks <= stops).all()


def _write_index(work: Workspace, found: int, variant: int) -> None:
    """Put entries into a file that may be too short for its geometry, with any numbers in its header."""
    slots = _SLOT_COUNTS[variant % len(_SLOT_COUNTS)]
    size = min(HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * (variant % 31), INDEX_CAPACITY)
    data = _FILLINGS[variant // 3 % len(_FILLINGS)][: size - variant % 47]
    index = work.index.place(data, in_front=bool(variant & 8))
    entries = _ENTRY_COUNTS[variant // 7 % len(_ENTRY_COUNTS)]
    for row in range(len(work.header)):
        work.header[row] = _LONGS[variant // (row + 2) % len(_LONGS)] if variant % 5 == row else 0
    claimed = slots if variant % 11 else _HURTFUL_SLOT_COUNTS[variant // 11 % len(_HURTFUL_SLOT_COUNTS)]
    arguments = (work.hashes, work.records, 0, found, work.columns, work.header)
    assert 0 <= kernels.put_index_entries(index, claimed, entries, *arguments) <= found
    _follow_chains(index, work, slots)


def _follow_chains(index: Any, work: Workspace, slots: int) -> None:
    """Follow chains over as many entries as the bytes have room for."""
    count = (len(index) - HEADER_SIZE - SLOT_SIZE * slots) // ENTRY_SIZE
    newest, found = work.newest[: SLOT_SIZE * slots], np.zeros(FOUND_COUNT, np.int64)
    newest[:] = bytes(len(newest))
    kernels.follow_chains(index, slots, 1, count, newest, found)
    assert 0 <= int(np.frombuffer(newest, ">i4").max()) <= max(count - 1, 0)
    assert 0 <= found[WRONG_ENTRIES] <= max(count - 1, 0)
