"""Search of a queue by store time, as 4.9 and as 5.3 do it.

Source: ConsumeQueue.getOffsetInQueueByTime (4.9.8, 5.3.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from store.formats.queue_unit import UNIT_SIZE, decode_unit

if TYPE_CHECKING:
    from store.structures.consumequeue.consume_queue import ConsumeQueue

StoreTime = Callable[[int, int], int]
"""The store time of the record at (log offset, size), negative when there is none."""


def nearest_by_time(queue: ConsumeQueue, time_ms: int, store_time: StoreTime, min_log_offset: int) -> int:
    """Return the queue offset of the nearest message in the first file modified at or after a time (4.9)."""
    file = queue.files.find_by_time(time_ms)
    units = file.read(0, file.readable_position) if file is not None else None
    if file is None or not units:
        return 0
    low = max(0, queue.min_offset * UNIT_SIZE - file.file_start) // UNIT_SIZE
    high = len(units) // UNIT_SIZE - 1
    before = after = 0
    before_ms = after_ms = -1
    while low <= high:
        middle = (low + high) // 2
        unit = decode_unit(units, middle * UNIT_SIZE)
        if unit.log_offset < min_log_offset:
            low, before = middle + 1, middle
            continue
        stored_ms = store_time(unit.log_offset, unit.size)
        if stored_ms < 0:
            return 0
        if stored_ms == time_ms:
            return file.file_start // UNIT_SIZE + middle
        if stored_ms > time_ms:
            high, after, after_ms = middle - 1, middle, stored_ms
        else:
            low, before, before_ms = middle + 1, middle, stored_ms
    if before_ms == -1 or (after_ms != -1 and abs(time_ms - before_ms) > abs(time_ms - after_ms)):
        return file.file_start // UNIT_SIZE + after
    return file.file_start // UNIT_SIZE + before


def first_at_or_after(queue: ConsumeQueue, time_ms: int, store_time: StoreTime) -> int:
    """Return the queue offset of the first message stored at or after a time, as of 5.3."""
    low, high = queue.min_offset, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        unit = queue.unit(middle)
        if unit is None or store_time(unit.log_offset, unit.size) < time_ms:
            low = middle + 1
        else:
            high = middle
    return low
