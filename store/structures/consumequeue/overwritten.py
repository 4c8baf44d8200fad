"""Tell whether the log ends inside an older record.

A broker cut the log there, and put new records over the old ones.

The leftovers behind the end are older than the records before it, and their queue offsets do not follow: the new
records took the offsets of those that they overwrote, and mostly are more or fewer. A broker's own truncation zeroes
neither records nor queue units.
"""

from __future__ import annotations

import numpy as np

from store.formats.message import INNER_BATCH, RECORD_MIN_SIZE
from store.formats.run import Run
from store.structures.commitlog.end import find_end
from store.structures.commitlog.resync import find_record
from store.structures.commitlog.scan import ScanRules, Segment, scan_segment
from store.structures.consumequeue.numbering import QueueTable

_RULES = ScanRules(accept_v2=True)


def is_overwritten(segment: Segment, log_end: int, last_ms: int) -> bool:
    """Return whether the first records behind the end are leftovers of a truncation.

    last_ms  store time of the record in front of the end
    """
    position = find_record(segment, log_end - segment.file_start)
    behind = next(scan_segment(segment, position, rules=_RULES)) if position >= 0 else None
    if not isinstance(behind, Run) or behind.columns.store_timestamp_ms[0] >= last_ms:
        return False
    return are_given_again(segment, log_end, behind)


def are_given_again(segment: Segment, log_end: int, behind: Run) -> bool:
    """Return whether the run cannot follow the segment's records before `log_end`.

    It has a queue offset that one of them has, or leaves out more messages than the bytes between have room for.
    """
    table, newest = QueueTable(), dict[int, int]()
    find_end([segment], segment.file_start, _RULES, lambda run: newest.update(_offsets(table, run)), stop=log_end)
    steps = [offset - newest.get(number, offset - 1) for number, offset in dict(_offsets(table, behind)[::-1]).items()]
    left_out = sum(step - 1 for step in steps)
    return min(steps, default=1) < 1 or left_out * RECORD_MIN_SIZE > behind.start - log_end


def _offsets(table: QueueTable, run: Run) -> list[tuple[int, int]]:
    """Return queue number and queue offset of each record that takes one offset of a queue."""
    numbers = table.assign(run.buffer, run.array, run.count)
    rows = np.flatnonzero((numbers >= 0) & (run.columns.sys_flag & INNER_BATCH == 0))
    return list(zip(numbers[rows].tolist(), run.columns.queue_offset[rows].tolist(), strict=True))
