"""Queue files and index files as arrays over their bytes; nothing is copied.

queue file   units, 20 bytes each                                  (store.formats.queue_unit)
index file   header 40, hash slots 4 each, entries 20 each         (store.formats.index_page)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from store.formats.index_page import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE, IndexHeader
from store.formats.queue_unit import PRE_BLANK_SIZE, UNIT_SIZE

UNIT_DTYPE = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
ENTRY_DTYPE = np.dtype([("key_hash", ">i4"), ("log_offset", ">i8"), ("time_diff", ">i4"), ("previous", ">i4")])
assert UNIT_DTYPE.itemsize == UNIT_SIZE
assert ENTRY_DTYPE.itemsize == ENTRY_SIZE

USUAL_SLOT_COUNTS = (5_000_000, 500, 64)


def units_of(data: Any) -> np.ndarray:
    """A queue file's units as a structured array over its bytes; nothing is copied."""
    return np.frombuffer(data, UNIT_DTYPE, memoryview(data).nbytes // UNIT_SIZE)


def entries_of(data: Any, slot_count: int, count: int) -> np.ndarray:
    """Entries 0 … count-1 as a structured array over an index file's bytes (entry 0 is never used)."""
    at = HEADER_SIZE + SLOT_SIZE * slot_count
    room = (memoryview(data).nbytes - at) // ENTRY_SIZE
    return np.frombuffer(data, ENTRY_DTYPE, max(0, min(count, room)), at)


def is_pre_blank(units: np.ndarray) -> np.ndarray:
    """Pre-blank units."""
    return np.asarray((units["log_offset"] == 0) & (units["size"] == PRE_BLANK_SIZE) & (units["tags_code"] == 0))


def slot_count_of(data: Any, header: IndexHeader) -> int:
    """The number of hash slots, told from size and content; 0 when nothing fits.

    The size leaves few numbers open (size = 40 + 4 x slots + 20 x entries); the right one is where every entry lies on
    the chain of its hash, which is tried on a few of them.
    """
    size = memoryview(data).nbytes
    rest = size - HEADER_SIZE
    usual = [slots for slots in USUAL_SLOT_COUNTS if _fits(data, header, slots, rest)]
    if usual:
        return usual[0]
    first = (rest // SLOT_SIZE) % (ENTRY_SIZE // SLOT_SIZE) or ENTRY_SIZE // SLOT_SIZE
    return next((s for s in range(first, rest // SLOT_SIZE + 1, 5) if _fits(data, header, s, rest)), 0)


def _fits(data: Any, header: IndexHeader, slots: int, rest: int) -> bool:
    left = rest - SLOT_SIZE * slots
    if left < 0 or left % ENTRY_SIZE or header.index_count > max(left // ENTRY_SIZE, 1):
        return False
    entries = entries_of(data, slots, header.index_count)
    if len(entries) < 2:
        return True
    sample = np.unique(np.linspace(1, len(entries) - 1, 64).astype(np.int64))
    hashes = entries["key_hash"][sample]
    if (hashes < 0).any():
        return False
    heads = np.frombuffer(data, ">i4", slots, HEADER_SIZE)[hashes % slots]
    # A few damaged entries must not make the whole file unreadable.
    return bool(np.count_nonzero((heads >= sample) & (entries["previous"][sample] < sample)) * 10 >= len(sample) * 9)
