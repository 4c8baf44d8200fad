"""Compare units of the timer log with their records' properties, many at once.

    delete mark   the record has TIMER_DEL_UNIQKEY
    slot's time   the slot of TIMER_OUT_MS or a later one; for a rolling unit TIMER_OUT_MS or earlier
    topic hash    that of REAL_TOPIC

`confirmed` compares many units; `compare` judges each remaining unit by its record.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from store import kernels
from store.errors import DamagedRecord
from store.formats.java import parse_long, string_hash
from store.formats.message import decode_record
from store.formats.properties import REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS
from store.formats.run import Int64Array, Run
from store.structures.timer.files import DELETE, ROLL

Found = npt.NDArray[np.bool_]


class UnitFields(NamedTuple):
    """Fields of timer units, each an array, sorted by log offset."""

    log_offset: Int64Array
    record_size: Int64Array
    slot_ms: Int64Array
    magic: Int64Array
    topic_hash: Int64Array

    def between(self, start: int, stop: int) -> slice:
        """Return the units whose log offsets are start … stop - 1."""
        first, last = np.searchsorted(self.log_offset, (start, stop))
        return slice(int(first), int(last))

    def part(self, rows: slice) -> UnitFields:
        """Return the units of these rows."""
        return UnitFields(*(field[rows] for field in self))


def confirmed(run: Run, units: UnitFields) -> Found:
    """Mark the units that have a record of their size in this run and match its properties."""
    columns = run.columns
    starts = columns.position + run.file_start
    rows = np.minimum(np.searchsorted(starts, units.log_offset), run.count - 1)
    dues, hashes, deletes = (np.empty(len(rows), np.int64) for _ in range(3))
    kernels.timer_properties(run.buffer, run.array, rows, dues, hashes, deletes)
    is_there = (starts[rows] == units.log_offset) & (columns.size[rows] == units.record_size)
    is_there &= columns.log_offset[rows] == units.log_offset
    is_in_time = np.where(units.magic & ROLL, units.slot_ms <= dues, units.slot_ms >= dues)
    is_as_marked = units.magic & DELETE == DELETE * deletes
    return np.asarray(is_there & (dues >= 0) & is_in_time & is_as_marked & (hashes == units.topic_hash))


def compare(record: bytes, time_ms: int, magic: int, topic_hash: int, precision_ms: int) -> str:
    """Return a unit's contradiction to its record; empty without one, or if the record is damaged."""
    try:
        properties = decode_record(record).properties
    except DamagedRecord:
        return ""
    due, topic = parse_long(properties.get(TIMER_OUT_MS, "")), properties.get(REAL_TOPIC, "")
    if bool(magic & DELETE) != (TIMER_DEL_UNIQKEY in properties):
        return "its magic and its record's properties disagree whether it is a delete"
    # A rebuild puts an overdue message into a later slot.
    if due is not None and (time_ms > due if magic & ROLL else time_ms < due - due % precision_ms):
        return f"it is in the slot of {time_ms} ms, its message is due at {due} ms"
    return "" if topic_hash == string_hash(topic) else f"its topic hash is not that of {topic}"
