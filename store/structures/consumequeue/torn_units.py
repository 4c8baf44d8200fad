"""Find and rewrite queue units that a power cut tore: they contradict their records.

    the record's log offset, another size or tags code      torn after the log offset, or damaged
    else, each 4-byte word is the record's or zero          torn inside the log offset

A sector ends at a multiple of four bytes of a unit, and the unit's bytes were zero before the first write. A broker
keeps a torn unit with a positive size, and serves a truncated message or none for it. Units of other records stay: the
check of the queue's order covers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from store.formats.columns import Column
from store.formats.derived import UNIT_DTYPE, units_of
from store.formats.queue_unit import UNIT_SIZE, QueueUnit, decode_unit, is_ext_address
from store.formats.run import Int64Array, Run
from store.formats.topics import SCHEDULE_TOPIC
from store.structures.consumequeue.consume_queue import ConsumeQueue

# A broker that dispatches during recovery writes the hash of the tags for delayed messages, not the deliver time.
_LEAST_DELIVER_TIME = 1 << 31
WORDS = UNIT_SIZE // 4


class _Piece(NamedTuple):
    """Consecutive records of one queue, and the units at their queue offsets."""

    queue: ConsumeQueue
    rows: Int64Array
    units: memoryview


def rewrite_torn_units(
    queues: Sequence[ConsumeQueue | None], run: Run, order: Int64Array, starts: Int64Array, codes: Int64Array
) -> int:
    """Rewrite the units that contradict a run's records; return the number of rewritten units.

    order, starts  the run's records by queue (kernels.order_by_queue)
    """
    present = np.flatnonzero(starts[1:] > starts[:-1]).tolist()
    pieces = [
        piece
        for number in present
        if (queue := queues[number]) is not None
        for piece in _pieces(queue, run, order[starts[number] : starts[number + 1]])
    ]
    if not pieces:
        return 0
    rows = np.concatenate([piece.rows for piece in pieces])
    found = units_of(memoryview(b"".join(piece.units for piece in pieces)))
    expected = np.empty(len(rows), UNIT_DTYPE)
    columns = run.columns
    expected["log_offset"], expected["size"] = columns.log_offset[rows], columns.size[rows]
    expected["tags_code"] = codes[rows]
    torn = np.flatnonzero(_is_torn(found, expected))
    ends = np.cumsum([len(piece.rows) for piece in pieces])
    rewritten = 0
    for index in torn.tolist():
        queue = pieces[int(np.searchsorted(ends, index, "right"))].queue
        unit = QueueUnit(*map(int, expected[index]))
        rewritten += _rewrite(queue, int(columns.queue_offset[rows[index]]), decode_unit(found[index].tobytes()), unit)
    return rewritten


def _is_torn(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    if found.tobytes() == expected.tobytes():
        return np.zeros(len(found), bool)
    words, wanted = (np.frombuffer(units.tobytes(), np.uint32).reshape(-1, WORDS) for units in (found, expected))
    differs = (words != wanted).any(axis=1)
    names_it = found["log_offset"] == expected["log_offset"]
    return np.asarray(differs & (names_it | ((words == wanted) | (words == 0)).all(axis=1)))


def _pieces(queue: ConsumeQueue, run: Run, rows: Int64Array) -> Iterator[_Piece]:
    """Group the records that have units by file; yield nothing if queue offsets do not count up by one."""
    offsets = run.array[Column.QUEUE_OFFSET]
    first, last = int(offsets[rows[0]]), int(offsets[rows[-1]])
    if queue.holds_batches or last - first + 1 != len(rows):
        return
    at, stop = max(first, queue.files.min_offset // UNIT_SIZE), min(last + 1, queue.max_offset)
    while at < stop:
        file = queue.files.find_by_offset(at * UNIT_SIZE)
        if file is None:
            return
        end = min(stop, (file.file_start + file.readable_position) // UNIT_SIZE)
        units = file.read(at * UNIT_SIZE - file.file_start, (end - at) * UNIT_SIZE)
        if not units:
            return
        yield _Piece(queue, rows[at - first : end - first], units)
        at = end


def _rewrite(queue: ConsumeQueue, queue_offset: int, found: QueueUnit, unit: QueueUnit) -> bool:
    """Rewrite a unit, but keep a tags code that a broker may write; return whether the unit changed."""
    if queue.ext is not None and is_ext_address(found.tags_code):
        unit = unit._replace(tags_code=found.tags_code)
    if queue.topic == SCHEDULE_TOPIC:
        # The deliver time of a broker with other delay settings differs by whole seconds.
        is_other_delay = (found.tags_code - unit.tags_code) % 1000 == 0
        if found.tags_code < _LEAST_DELIVER_TIME or is_other_delay:
            unit = unit._replace(tags_code=found.tags_code)
    if unit == found:
        return False
    queue.rewrite(queue_offset, unit)
    return True
