"""A Run: the records of one call of the scan kernel, as columns over their bytes.

Commit log, consume queues and index share it, so it is defined below them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from store.formats.columns import COLUMN_NAMES, Column
from store.formats.message import LOG_OFFSET_AT
from store.formats.properties import decode_properties

Int64Array = npt.NDArray[np.int64]


class Stretch(NamedTuple):
    """Log offsets from `start` to before `stop`."""

    start: int
    stop: int


class Columns(NamedTuple):
    """One int64 array per column, all of one length; see store.formats.columns."""

    position: Int64Array
    size: Int64Array
    body_position: Int64Array
    body_size: Int64Array
    topic_position: Int64Array
    topic_size: Int64Array
    properties_position: Int64Array
    properties_size: Int64Array
    queue_id: Int64Array
    queue_offset: Int64Array
    log_offset: Int64Array
    sys_flag: Int64Array
    store_timestamp_ms: Int64Array
    body_crc: Int64Array


assert Columns._fields == COLUMN_NAMES


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records of one segment.

    misplaced_count  records with a log offset field other than their position in the log
    """

    file_start: int
    path: Path
    buffer: memoryview
    array: Int64Array
    count: int
    misplaced_count: int = 0

    @property
    def columns(self) -> Columns:
        return Columns(*self.array[:, : self.count])

    @property
    def start(self) -> int:
        """Log offset of the first record."""
        return self.file_start + int(self.array[Column.POSITION, 0])

    @property
    def end(self) -> int:
        """Log offset after the last record."""
        return self.file_start + int(self.columns.position[-1] + self.columns.size[-1])

    @property
    def log_offsets(self) -> Int64Array:
        """Log offset of each record by its position; its log offset field is ignored."""
        return self.columns.position + self.file_start

    @property
    def named_offsets(self) -> Int64Array:
        """The log offset field of each record, also of a run whose column has the positions."""
        columns = self.columns
        if not self.misplaced_count:
            return columns.log_offset
        fields = columns.position[:, np.newaxis] + np.arange(LOG_OFFSET_AT, LOG_OFFSET_AT + 8)
        return np.asarray(np.frombuffer(self.buffer, np.uint8)[fields].view(">i8").ravel(), np.int64)

    def record(self, row: int) -> memoryview:
        """Return the bytes of a record."""
        at = int(self.array[Column.POSITION, row])
        return self.buffer[at : at + int(self.array[Column.SIZE, row])]

    def topic(self, row: int) -> bytes:
        """Return the topic of a record."""
        at = int(self.array[Column.TOPIC_POSITION, row])
        return bytes(self.buffer[at : at + int(self.array[Column.TOPIC_SIZE, row])])

    def properties(self, row: int) -> dict[str, str]:
        """Return the properties of a record."""
        at = int(self.array[Column.PROPERTIES_POSITION, row])
        return decode_properties(self.buffer[at : at + int(self.array[Column.PROPERTIES_SIZE, row])])

    def part(self, first: int, last: int) -> Run:
        """Return the records first … last - 1 of this run."""
        return Run(self.file_start, self.path, self.buffer, self.array[:, first:last], last - first)

    def up_to(self, log_offset: int) -> Run:
        """Return the records of this run that end at or before a log offset."""
        ends = self.columns.log_offset + self.columns.size
        return self.part(0, int(np.searchsorted(ends, log_offset, "right")))
