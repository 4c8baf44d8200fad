"""The 46-byte unit of a batch queue: arrays over a file's bytes, and units built from records.

    0        8    12        20        28        36 38    42    46
    |phyOff  |size|tagsCode |storeTime|baseOff  |n |comp |resv |

A record of several messages has their number in the property INNER_NUM and the first queue offset in INNER_BASE.
Every other record is one message at its own queue offset.

Source: putBatchMessagePositionInfo of its queue, CommitLog.setBatchSizeIfNeeded (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from store import kernels
from store.formats.inner_batch import inner_batch_of
from store.formats.properties import INNER_NUM
from store.formats.queue_unit import BATCH_UNIT_SIZE
from store.formats.run import Int64Array, Run

BATCH_UNIT_DTYPE = np.dtype(
    [
        ("log_offset", ">i8"),
        ("size", ">i4"),
        ("tags_code", ">i8"),
        ("store_timestamp_ms", ">i8"),
        ("queue_offset", ">i8"),
        ("message_count", ">i2"),
        ("compacted_offset", ">i4"),
        ("reserved", ">i4"),
    ]
)
assert BATCH_UNIT_DTYPE.itemsize == BATCH_UNIT_SIZE
NO_COMPACTED_OFFSET = -1

BatchUnitArray = npt.NDArray[np.void]


def batch_units_of(data: bytes | memoryview) -> BatchUnitArray:
    """Return a file's units as a structured array over its bytes; nothing is copied."""
    return np.frombuffer(data, BATCH_UNIT_DTYPE, memoryview(data).nbytes // BATCH_UNIT_SIZE)


def is_written(units: BatchUnitArray) -> npt.NDArray[np.bool_]:
    """Mark the units that a broker treats as written."""
    return np.asarray(
        (units["log_offset"] >= 0) & (units["size"] > 0) & (units["queue_offset"] >= 0) & (units["message_count"] > 0)
    )


def written_count(units: BatchUnitArray) -> int:
    """Count the written units before the first unwritten one."""
    missing = np.flatnonzero(~is_written(units))
    return int(missing[0]) if len(missing) else len(units)


def units_of_records(run: Run, rows: Int64Array, codes: Int64Array) -> BatchUnitArray:
    """Return the units of these records of a run; `codes` holds a tags code for each record of the run."""
    columns = run.columns
    units = np.zeros(len(rows), BATCH_UNIT_DTYPE)
    units["log_offset"] = columns.position[rows] + run.file_start
    units["size"] = columns.size[rows]
    units["tags_code"] = codes[rows]
    units["store_timestamp_ms"] = columns.store_timestamp_ms[rows]
    units["queue_offset"] = columns.queue_offset[rows]
    units["message_count"] = 1
    units["compacted_offset"] = NO_COMPACTED_OFFSET
    for row, base, count in inner_batches(run):
        places = np.flatnonzero(rows == row)
        units["queue_offset"][places] = base
        units["message_count"][places] = count
    return units


def inner_batches(run: Run) -> Iterator[tuple[int, int, int]]:
    """Yield row, first queue offset and message count of each record that holds several messages."""
    rows = np.empty(run.count, np.int64)
    count = kernels.rows_with_property(run.buffer, run.array, run.count, INNER_NUM.encode(), rows)
    for row in rows[:count].tolist():
        found = inner_batch_of(run.properties(row))
        if found is not None:
            yield row, *found
