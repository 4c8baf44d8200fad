"""Separates leftovers past the log's end from lost records.

If the log ends at zeros, a later record of the same segment is a leftover in two cases:
    it is older than the last valid record
    the zeros are the 8 bytes of an earlier truncation
If the log ends at damage in the last segment, records older than the last valid one are leftovers if the first record
after the damage is older too: a broker overwrote the record before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from store.formats.message import LOG_OFFSET_AT, RECORD_MIN_SIZE
from store.formats.run import Run
from store.structures.commitlog.end import LogEnd
from store.structures.commitlog.scan import Damage, End, Segment

_CUT_SIZE = 8
_SECTOR_SIZE = 512


class Leftovers:
    """The leftovers past one end.

    segments  the segment of the end and all later ones
    first     the first run past the end

    is_overwritten  whether the end is inside an older record, by the times
    """

    def __init__(self, segments: Sequence[Segment], end: LogEnd, first: Run | None) -> None:
        self._newest_ms = end.last_store_timestamp_ms
        is_older = first is not None and int(first.columns.store_timestamp_ms[0]) < self._newest_ms
        self.is_overwritten = isinstance(end.outcome, Damage) and len(segments) == 1 and is_older
        ends_here = bool(segments) and (self.is_overwritten or isinstance(end.outcome, End))
        self._segment = segments[0] if ends_here else None
        self._was_cut = (
            self._segment is not None
            and isinstance(end.outcome, End)
            and is_zeroed_cut(self._segment, end.log_end - self._segment.file_start)
        )

    @property
    def stop(self) -> int | None:
        """Log offset at the end of the segment that may hold leftovers; None without one."""
        return None if self._segment is None else self._segment.file_start + self._segment.size

    def among(self, run: Run) -> npt.NDArray[np.bool_]:
        """Mark the records of a run that are leftovers."""
        if self._segment is None or run.file_start != self._segment.file_start:
            return np.zeros(run.count, bool)
        return np.full(run.count, self._was_cut) | (run.columns.store_timestamp_ms < self._newest_ms)


def is_zeroed_cut(segment: Segment, position: int) -> bool:
    """Return whether a truncation zeroed the first 8 bytes of a record here, and the rest is left.

    Zeros of a lost write reach to the end of a disk sector.
    """
    stop = min(position + RECORD_MIN_SIZE, segment.size)
    head = bytes(segment.buffer[position:stop]) if segment.readable_end(position, stop) == stop else b""
    if len(head) < RECORD_MIN_SIZE or any(head[:_CUT_SIZE]):
        return False
    claimed = int.from_bytes(head[LOG_OFFSET_AT : LOG_OFFSET_AT + 8], "big")
    ends_in_sector = (position + _CUT_SIZE) % _SECTOR_SIZE != 0
    return any(head) and (claimed == segment.file_start + position or (ends_in_sector and head[_CUT_SIZE] != 0))
