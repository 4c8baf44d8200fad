"""Queue files and index files as arrays over their bytes, without copies.

queue file   units, 20 bytes each                                  (store.formats.queue_unit)
index file   header 40, hash slots 4 each, entries 20 each         (store.formats.index_page)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from store.formats.index_page import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from store.formats.queue_unit import PRE_BLANK_SIZE, UNIT_SIZE

if TYPE_CHECKING:
    from typing_extensions import Buffer

UNIT_DTYPE = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
ENTRY_DTYPE = np.dtype([("key_hash", ">i4"), ("log_offset", ">i8"), ("time_diff", ">i4"), ("previous", ">i4")])
assert UNIT_DTYPE.itemsize == UNIT_SIZE
assert ENTRY_DTYPE.itemsize == ENTRY_SIZE


def units_of(data: Buffer) -> np.ndarray:
    """Return a queue file's units as a structured array over its bytes; nothing is copied."""
    return np.frombuffer(memoryview(data), UNIT_DTYPE, memoryview(data).nbytes // UNIT_SIZE)


def entries_of(data: Buffer, slot_count: int, count: int) -> np.ndarray:
    """Return entries 0 … count-1 as a structured array over an index file's bytes; entry 0 is unused."""
    at = HEADER_SIZE + SLOT_SIZE * slot_count
    room = (memoryview(data).nbytes - at) // ENTRY_SIZE
    return np.frombuffer(memoryview(data), ENTRY_DTYPE, max(0, min(count, room)), at)


def is_pre_blank(units: np.ndarray) -> np.ndarray:
    """Mark the pre-blank units."""
    return np.asarray((units["log_offset"] == 0) & (units["size"] == PRE_BLANK_SIZE) & (units["tags_code"] == 0))


def is_of_record(units: np.ndarray) -> np.ndarray:
    """Mark the units that point to a record: written ones, but for pre-blank units."""
    return np.asarray((units["log_offset"] >= 0) & (units["size"] > 0) & ~is_pre_blank(units))


def expired_count(units: np.ndarray, filler: np.ndarray, log_start: int) -> int:
    """Count leading units that are expired or fillers; 0 if none of them is expired."""
    starts, ends = units["log_offset"].astype(np.int64), units["log_offset"] + units["size"].astype(np.int64)
    is_expired = (starts >= 0) & (units["size"] > 0) & (ends <= log_start) & ~filler
    kept = int(np.argmin(np.append(is_expired | filler, False)))
    return kept if is_expired[:kept].any() else 0
