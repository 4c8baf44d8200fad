"""Idle queues: queues of one file that begins at 0, with all units in its first page.

A store for devices may have a hundred thousand idle queues. Recovery reads 4 KiB of each and keeps the units. The
ConsumeQueue with its mapped file is created when the queue is read or written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from store import kernels
from store.broker_line import BrokerLine
from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.formats.derived import units_of
from store.formats.queue_unit import UNIT, UNIT_SIZE
from store.formats.run import Int64Array, Run
from store.layout import segment_name

FIRST_FILE = segment_name(0)
PAGE_SIZE = 4096


class RestingQueue(NamedTuple):
    """The ends of a recovered queue.

    unit_count      the number of units, also the queue offset of the next message
    max_log_offset  the greatest log offset of a unit
    end             the log offset after the last record that has a unit
    units           the bytes of the units in the file
    """

    unit_count: int
    max_log_offset: int
    end: int
    units: bytes

    def first_from(self, log_offset: int, line: BrokerLine) -> int:
        """Return the queue's start for a log that begins at `log_offset`, as ConsumeQueue.correct_min_offset."""
        if line.begins_at_end(self.last_unit()[0], log_offset):
            return self.unit_count
        return int(np.argmax(units_of(self.units)["log_offset"] >= log_offset)) if log_offset > 0 else 0

    def last_unit(self) -> tuple[int, int]:
        """Return log offset and size of the last unit's record."""
        log_offset, size, _ = UNIT.unpack_from(self.units, len(self.units) - UNIT_SIZE)
        return log_offset, size

    def agrees(self, run: Run, rows: Int64Array, codes: Int64Array) -> bool:
        """Return whether these records' units are at their queue offsets, or follow the last unit."""
        columns = run.columns
        rows = rows[columns.queue_offset[rows] < self.unit_count]
        places = columns.queue_offset[rows]
        if places.min(initial=0) < 0:
            return False
        units = units_of(self.units)[places]
        return bool(
            np.array_equal(units["log_offset"], columns.log_offset[rows])
            and np.array_equal(units["size"], columns.size[rows])
            and np.array_equal(units["tags_code"], codes[rows])
        )


def read_resting(folder: str, file_size: int, fs: Filesystem) -> RestingQueue | None:
    """Read the ends of the queue in `folder`; None if it can't be idle or its page is unreadable."""
    if fs.only_file(folder, FIRST_FILE) != file_size:
        return None
    try:
        return ends_of_page(fs.read_start(f"{folder}/{FIRST_FILE}", PAGE_SIZE))
    except StoreError:
        # Opening the queue raises the error.
        return None


def ends_of_page(page: bytes) -> RestingQueue | None:
    """Return the ends of a queue whose file begins with this page; None if they are not in the page."""
    ends = np.empty(2, np.int64)
    count = kernels.count_leading_units(page, ends)
    if not count:
        return None
    newest, end = ends.tolist()
    return RestingQueue(count, newest, end, page[: count * UNIT_SIZE])
