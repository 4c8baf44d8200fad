"""Find gaps between salvaged records, for a new store that keeps log offsets.

    gap      bytes of the log between two successive records
    missing  queue offsets without a record, between two records of a queue, or before its first record if the log
             begins at 0

The record of a missing queue offset was in one of the gaps between those two records. Its placeholder gets the first
of these gaps with enough room.

A log that begins at 0 has no expired messages. So its queues begin at 0 too, as far as the gaps have room. Without
placeholders a queue would begin with pre-blank units of log offset 0, and a broker would serve them (see
`moved_start`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from store import kernels
from store.errors import BadRequest
from store.formats.message import INNER_BATCH, RECORD_MIN_SIZE
from store.formats.run import Int64Array
from store.structures.consumequeue.numbering import QueueTable
from store.verbs.salvage.grade import Grade, SalvagedRun
from store.verbs.salvage.placeholder import Placeholder, encode_placeholder

NO_QUEUE_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Missing:
    """Missing queue offsets [first, stop); their records were in log offsets [after, before)."""

    topic: bytes
    queue_id: int
    first: int
    stop: int
    after: int
    before: int


class QueueGaps:
    """A finder of missing queue offsets; it gets the runs in log order.

    in_batches  False leaves out queues whose records hold several messages (5.x), each with an offset of its own
    from_zero   whether queue offsets before a queue's first record are missing too
    """

    def __init__(self, *, in_batches: bool = True, from_zero: bool = False) -> None:
        self._in_batches = in_batches
        self._first = 0 if from_zero else NO_QUEUE_OFFSET
        self.table = QueueTable()
        self._next: Int64Array = np.empty(0, np.int64)
        self._ends: dict[int, int] = {}
        self._batched: set[int] = set()

    def split(self, salvaged: SalvagedRun) -> Iterable[tuple[SalvagedRun, Missing | None]]:
        """Split a run at missing queue offsets, and yield them after each piece."""
        run, first = salvaged.run, 0
        slots = self.table.assign(run.buffer, run.array, run.count)
        new = np.full(len(self.table) - len(self._next), self._first, np.int64)
        self._next = np.concatenate([self._next, new])
        log_offsets = salvaged.log_offsets
        if not self._in_batches:
            self._batched.update(slots[run.columns.sys_flag & INNER_BATCH != 0].tolist())
        while first < run.count:
            stop = kernels.first_queue_gap(run.array, slots, first, run.count, self._next)
            piece = salvaged.rows(first, stop)
            # The last of equal numbers is kept. Records without a queue have number -1, so they write the last item.
            newest = np.full(len(self.table) + 1, -1)
            newest[slots[first:stop]] = log_offsets[first:stop]
            met = np.flatnonzero(newest[:-1] >= 0)
            self._ends.update(zip(met.tolist(), newest[met].tolist(), strict=True))
            yield piece, self._missing(salvaged, stop, int(slots[stop])) if stop < run.count else None
            first = stop

    def _missing(self, salvaged: SalvagedRun, row: int, slot: int) -> Missing | None:
        wanted, offset = int(self._next[slot]), int(salvaged.run.columns.queue_offset[row])
        self._next[slot] = offset
        if slot in self._batched:
            return None
        after, before = self._ends.get(slot, 0), int(salvaged.log_offsets[row])
        if offset - wanted > (before - after) // RECORD_MIN_SIZE:
            # More records than the log between the two can have held: the queue offset is damaged.
            return None
        return Missing(*self.table.queues[slot], wanted, max(wanted, offset), after, before)


def plan_placeholders(
    runs: Iterable[SalvagedRun], segment_size: int, *, in_batches: bool
) -> dict[int, list[Placeholder]]:
    """Assign placeholders to gaps, keyed by the log offset of each gap.

    BadRequest if the gaps have no room for one.
    """
    gaps: list[tuple[int, int]] = []
    missing: list[Missing] = []
    finder, end = QueueGaps(in_batches=in_batches), -1
    for run in runs:
        if run.grade is not Grade.CERTAIN:
            continue
        start = int(run.log_offsets[0])
        if end < 0 and start < segment_size:
            finder, end = QueueGaps(in_batches=in_batches, from_zero=True), 0
        if 0 <= end < start:
            gaps.append((end, start))
        end = run.run.end
        missing += [one for _, one in finder.split(run) if one is not None]
    planned: dict[int, list[Placeholder]] = {}
    starts, used = [start for start, _ in gaps], [0] * len(gaps)
    for one in missing:
        if one.first == 0 and one.stop > _room(gaps, one.before) // RECORD_MIN_SIZE:
            # The queue began late in the old store too.
            continue
        size = len(encode_placeholder((one.topic, one.queue_id, one.first), 0, 0))
        for queue_offset in range(one.first, one.stop):
            number = bisect_left(starts, one.after)
            while number < len(gaps) and used[number] + size > gaps[number][1] - gaps[number][0]:
                number += 1
            if number == len(gaps) or gaps[number][1] > one.before:
                raise BadRequest(
                    f"no room in the log for a placeholder of queue offset {queue_offset}",
                    offset=one.after,
                    code="no-room-for-placeholder",
                )
            used[number] += size
            planned.setdefault(starts[number], []).append((one.topic, one.queue_id, queue_offset))
    return planned


def _room(gaps: Iterable[tuple[int, int]], stop: int) -> int:
    """Return the bytes of the gaps before a log offset."""
    return sum(end - start for start, end in gaps if end <= stop)
