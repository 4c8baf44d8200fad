"""Where the log ends, for readers who want to know it at once.

A segment is preallocated, so its length does not tell; a broker walks the last three segments with CRC when it starts.
A reader can ask the consume queues instead: sorted by log offset, their units name the records of the last segment one
behind the other. Where the head of a record does not say what its unit says, the log was cut there and the units from
there on are left over. Between two units that do not touch lie records without a unit (prepared messages), which are
walked. The newest records are verified with CRC.

That trusts the units where a broker would verify, so it is only for logs whose end is large, and not where units point
behind the last segment: they are what a recovery left behind that cut the log.
"""

from __future__ import annotations

import numpy as np

from store.commitlog.end import find_end
from store.commitlog.scan import DEFAULT_RULES, VERIFYING, ScanRules
from store.consumequeue.consume_queue import unit_array
from store.disk.mapped_file import MappedFile
from store.formats.message import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, RECORD_MIN_SIZE
from store.formats.queue_unit import UNIT_SIZE
from store.kernels.run import Int64Array
from store.opened.opened_store import OpenedStore

NORMAL_SEGMENTS = 3
"""How many of the newest segments a normal recovery reads."""
_HEAD = np.dtype([("size", ">i4"), ("magic", ">u4")])


# Up to here the broker's own walk costs less than is worth saving.
WALKED_ANYWAY_BYTES = 64 * 1024 * 1024
_VERIFIED_RECORDS = 64


def needs_walk(opened: OpenedStore) -> bool:
    """Whether the end must be found by the broker's walk: the queues must have been recovered."""
    segments = opened.log.segments.files
    if sum(segment.size for segment in segments[-NORMAL_SEGMENTS:]) <= WALKED_ANYWAY_BYTES:
        return True
    return opened.queues.max_physic_offset > segments[-1].file_start + segments[-1].size


def find_chain_end(opened: OpenedStore) -> int:
    """Log offset up to which units and records of the last segment agree; its start where it has no unit.

    The queues must have been recovered. Behind it there may be more records, which no unit names yet.
    """
    segment = opened.log.segments.last
    if segment is None:
        return 0
    offsets, sizes = _units_in(opened, segment)
    count = _agreeing_count(segment, offsets, sizes)
    at = 0
    breaks = np.flatnonzero(offsets[1:count] != (offsets + sizes)[: max(0, count - 1)]) + 1
    for index in [*([0] if count and offsets[0] else []), *breaks.tolist()]:
        at = int(offsets[index - 1] + sizes[index - 1]) if index else 0
        if _walk_to(segment, at, int(offsets[index])) != offsets[index]:
            return segment.file_start + at
    if not count:
        return segment.file_start
    end = int(offsets[count - 1] + sizes[count - 1])
    return segment.file_start + _walk_to(segment, int(offsets[max(0, count - _VERIFIED_RECORDS)]), end, VERIFYING)


def _units_in(opened: OpenedStore, segment: MappedFile) -> tuple[Int64Array, Int64Array]:
    """Position and size of every record of the segment that has a unit, by position."""
    offsets, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for queue in opened.queues:
        for file in reversed(queue.files.files):
            units = unit_array(file)[: file.readable_position // UNIT_SIZE]
            places = units["log_offset"].astype(np.int64) - segment.file_start
            inside = (places >= 0) & (places <= segment.size - RECORD_MIN_SIZE)
            offsets.append(places[inside])
            sizes.append(units["size"][inside].astype(np.int64))
            if not inside.all():
                break
    places, first = np.unique(np.concatenate(offsets), return_index=True)
    return places, np.concatenate(sizes)[first]


def _agreeing_count(segment: MappedFile, offsets: Int64Array, sizes: Int64Array) -> int:
    """How many units in a row name a place where a record of that size begins."""
    if not len(offsets):
        return 0
    reach = min(segment.size, int(offsets[-1]) + RECORD_MIN_SIZE)
    is_read = np.ones(len(offsets), bool)
    for begin, stop in segment.unreadable_ranges(0, reach):
        # The units are all that is known of a record that can't be read.
        is_read &= (offsets + _HEAD.itemsize <= begin) | (offsets >= stop)
    content = np.frombuffer(segment.buffer, np.uint8)
    heads = content[offsets[is_read, None] + np.arange(_HEAD.itemsize)].view(_HEAD)[:, 0]
    right = ~is_read
    is_record = (heads["magic"] == MESSAGE_MAGIC_V1) | (heads["magic"] == MESSAGE_MAGIC_V2)
    right[is_read] = (heads["size"] == sizes[is_read]) & is_record
    return len(right) if right.all() else int(np.argmin(right))


def _walk_to(segment: MappedFile, position: int, target: int, rules: ScanRules = DEFAULT_RULES) -> int:
    """Where a walk from `position` is when it can't go on towards `target`."""
    start = segment.file_start
    return find_end([segment], start + position, rules, stop=start + target).log_end - start
