"""The 46-byte unit of a batch queue: arrays over a file's bytes, and units built from records.

    0        8    12        20        28        36 38    42    46
    |phyOff  |size|tagsCode |storeTime|baseOff  |n |comp |resv |

A record of several messages has their number in the property INNER_NUM and the first queue offset in INNER_BASE.
Every other record is one message at its own queue offset.

A broker with queues in a database gives such a record a queue offset for each message, and no INNER_BASE. A broker
that builds queue files from its log counts 1 message (setBatchSizeIfNeeded). Then a consumer that asks for one message
gets the record again and again. The next put may get the queue offset of a message inside of it. So here the record's
unit has the number of its messages.

Source: putBatchMessagePositionInfo of its queue, CommitLog.setBatchSizeIfNeeded, CommitLog.getMessageNum (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from store import kernels
from store.formats.inner_batch import inner_batch_of
from store.formats.message import INNER_BATCH
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
    columns = run.columns
    for row in rows[:count].tolist():
        is_flagged = int(columns.sys_flag[row]) & INNER_BATCH
        found = inner_batch_of(run.properties(row), int(columns.queue_offset[row]) if is_flagged else None)
        if found is not None:
            yield row, *found


def last_offsets(run: Run) -> Int64Array:
    """Return the last queue offset that each record takes, by the flag of records of several messages."""
    columns = run.columns
    if not (columns.sys_flag & INNER_BATCH).any():
        return columns.queue_offset
    offsets = columns.queue_offset.copy()
    for row, base, count in inner_batches(run):
        offsets[row] = base + count - 1
    return offsets
