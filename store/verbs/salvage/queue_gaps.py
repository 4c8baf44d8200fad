"""Find gaps between salvaged records, for a new store that keeps log offsets.

    gap      bytes of the log between two successive records
    missing  queue offsets without a record, between two records of a queue, or before its first record if the log
             begins at 0

The record of a missing queue offset was in one of the gaps between those two records. Its placeholder gets the first
of these gaps with enough room.

A light message queue misses an offset only if the log lacks bytes for its record between the two: a broker leaves
an offset out for a message that it does not dispatch, and its files have the next message there. In a database the
offset stays empty, so it is missing in files. One placeholder takes an offset in several queues.

A record of a batch queue takes an offset for each of its messages. In a gap there, a broker answers with the message
before it. A consumer that asks for fewer messages than the next record has never gets past the gap.

A log that begins at 0 has no expired messages. So its queues begin at 0 too, as far as the gaps have room. Without
placeholders a queue would begin with pre-blank units of log offset 0, and a broker would serve them (see
`moved_start`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from store import kernels
from store.formats.inner_batch import INNER_MIN_SIZE, MAX_MESSAGE_COUNT
from store.formats.java import decode_utf8
from store.formats.message import RECORD_MIN_SIZE
from store.formats.run import Int64Array
from store.formats.sets import is_in
from store.formats.topics import shares_records
from store.structures.commitlog.end import END_OF_LOG
from store.structures.consumequeue.batch_units import inner_batches
from store.structures.consumequeue.multi_dispatch import QueueKey, find_light_parts
from store.structures.consumequeue.numbering import QueueTable
from store.verbs.salvage.grade import Grade, SalvagedRun
from store.verbs.salvage.log_writer import NoRoom
from store.verbs.salvage.placeholder import LIGHT_TOPIC, Placeholder, encode_placeholder

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
    is_light: bool = False
    is_batched: bool = False


class _LightEnd(NamedTuple):
    """A light queue's next offset, its last record, and the bytes in gaps of the log before it."""

    next: int
    after: int
    lost_bytes: int


class QueueGaps:
    """A finder of missing queue offsets; it gets the runs in log order.

    simple     whether a record of several messages (5.x) takes one queue offset, and not one for each
    holes      whether the old light queues had a hole for each message that was not dispatched
    from_zero  whether queue offsets before a queue's first record are missing too
    """

    def __init__(self, *, simple: bool = False, holes: bool = False, from_zero: bool = False) -> None:
        self._simple, self._holes = simple, holes
        self._first = 0 if from_zero else NO_QUEUE_OFFSET
        self.table = QueueTable()
        self._next: Int64Array = np.empty(0, np.int64)
        self._ends: dict[int, int] = {}
        self._batched: set[int] = set()
        self._light: dict[QueueKey, _LightEnd] = {}
        self._end, self._lost_bytes = (0 if from_zero else END_OF_LOG), 0

    @property
    def names(self) -> set[QueueKey]:
        """The queues met, light ones too."""
        return {*self.table.names, *self._light}

    def meet(self, salvaged: SalvagedRun) -> None:
        """Note the queues of a run alone."""
        run = salvaged.run
        for _ in self._light_gaps(salvaged, self.table.assign(run.buffer, run.array, run.count)):
            pass

    def split(self, salvaged: SalvagedRun) -> Iterator[tuple[SalvagedRun, list[Missing]]]:
        """Split a run at missing queue offsets, and yield those before the next record after each piece."""
        run, found = salvaged.run, dict[int, list[Missing]]()
        slots = self.table.assign(run.buffer, run.array, run.count)
        for row, one in (*self._own_gaps(salvaged, slots), *self._light_gaps(salvaged, slots)):
            found.setdefault(row, []).append(one)
        first = 0
        for stop in (*sorted(found), salvaged.count):
            yield salvaged.rows(first, stop), found.get(stop, [])
            first = stop

    def _own_gaps(self, salvaged: SalvagedRun, slots: Int64Array) -> Iterator[tuple[int, Missing]]:
        """Yield the missing offsets of the records' own queues, and the row of the next record."""
        run, first = salvaged.run, 0
        new = np.full(len(self.table) - len(self._next), self._first, np.int64)
        self._next = np.concatenate([self._next, new])
        log_offsets = salvaged.log_offsets
        if not self._simple:
            yield from self._batch_gaps(salvaged, slots)
            slots = np.where(is_in(slots, sorted(self._batched)), -1, slots)
        while first < run.count:
            stop = kernels.first_queue_gap(run.array, slots, first, run.count, self._next)
            # The last of equal numbers is kept. Records without a queue have number -1, so they write the last item.
            newest = np.zeros(len(self.table) + 1, np.int64)
            newest[slots[first:stop]] = log_offsets[first:stop]
            met = np.flatnonzero(newest[:-1])
            self._ends.update(zip(met.tolist(), newest[met].tolist(), strict=True))
            missing = self._missing(salvaged, stop, int(slots[stop])) if stop < run.count else None
            if missing is not None:
                yield stop, missing
            first = stop

    def _batch_gaps(self, salvaged: SalvagedRun, slots: Int64Array) -> Iterator[tuple[int, Missing]]:
        """Yield the missing offsets of batch queues, and the row of the next record."""
        counts = {row: count for row, _, count in inner_batches(salvaged.run) if slots[row] >= 0}
        self._batched.update(int(slots[row]) for row in counts)
        for row in np.flatnonzero(is_in(slots, sorted(self._batched))).tolist():
            slot = int(slots[row])
            if self._next[slot] >= 0 and (missing := self._missing(salvaged, row, slot)) is not None:
                yield row, missing
            self._next[slot] = int(salvaged.run.columns.queue_offset[row]) + counts.get(row, 1)
            self._ends[slot] = int(salvaged.log_offsets[row])

    def _light_gaps(self, salvaged: SalvagedRun, slots: Int64Array) -> Iterator[tuple[int, Missing]]:
        """Yield the missing offsets of light queues, and the row of the next record."""
        run = salvaged.run
        self._lost_bytes += max(0, run.start - self._end)
        self._end = run.end
        for key, part, rows in find_light_parts(run, np.flatnonzero(slots >= 0)).parts:
            topic, log_offsets = key[0].encode(), salvaged.log_offsets
            end = self._light.get(key, _LightEnd(self._first, 0, 0))
            # A record that lists a light queue twice gets one unit in it.
            once = np.diff(rows, prepend=-1) > 0
            for row, offset in zip(rows[once].tolist(), part.columns.queue_offset[once].tolist(), strict=True):
                before = int(log_offsets[row])
                lost_bytes = before - end.after if self._holes else self._lost_bytes - end.lost_bytes
                room = lost_bytes // RECORD_MIN_SIZE
                is_light = shares_records(key[0]) or key not in self.table.names
                if 0 <= end.next < offset <= end.next + room and is_light:
                    yield row, Missing(topic, key[1], end.next, offset, end.after, before, is_light=True)
                end = _LightEnd(offset + 1, before, self._lost_bytes)
            self._light[key] = end

    def _missing(self, salvaged: SalvagedRun, row: int, slot: int) -> Missing | None:
        wanted, offset = int(self._next[slot]), int(salvaged.run.columns.queue_offset[row])
        self._next[slot] = offset
        after, before, is_batched = self._ends.get(slot, 0), int(salvaged.log_offsets[row]), slot in self._batched
        if offset - wanted > (before - after) // (INNER_MIN_SIZE if is_batched else RECORD_MIN_SIZE):
            # More records than the log between the two can have held: the queue offset is damaged.
            return None
        return Missing(*self.table.queues[slot], wanted, max(wanted, offset), after, before, is_batched=is_batched)


@dataclass(slots=True)
class GapPlan:
    """Placeholders for the log offsets [start, stop) without a record; `room` is the rest of their bytes."""

    start: int
    stop: int
    room: int
    placeholders: list[Placeholder] = field(default_factory=list)

    def add(self, placeholder: Placeholder, size: int = 0) -> bool:
        """Append a placeholder of `size` bytes if it fits."""
        size = size or _size(placeholder)
        if size <= self.room:
            self.room -= size
            self.placeholders.append(placeholder)
            return True
        return False

    def add_light(self, missing: Missing, queue_offset: int, first: int) -> int:
        """Give a light queue's offset to a placeholder from number `first` on, or to a new one.

        Return its number, -1 without room. The writer numbers placeholders of LIGHT_TOPIC. A light queue of another
        prefix (4.9) has the queue id of its record.
        """
        light, is_of_any = (missing.topic, queue_offset), shares_records(decode_utf8(missing.topic))
        for number in range(first, len(self.placeholders)):
            one = self.placeholders[number]
            wider = one._replace(light=(*one.light, light))
            takes = one.takes_light and (is_of_any or one.queue_id == missing.queue_id)
            if takes and (growth := _size(wider) - _size(one)) <= self.room:
                self.room -= growth
                self.placeholders[number] = wider
                return number
        is_added = self.add(Placeholder(LIGHT_TOPIC, missing.queue_id, NO_QUEUE_OFFSET, (light,)))
        return len(self.placeholders) - 1 if is_added else -1


def _size(placeholder: Placeholder) -> int:
    return len(encode_placeholder(placeholder, 0, 0))


def placeholders_before(missing: Sequence[Missing]) -> list[Placeholder]:
    """Return the placeholders for the missing queue offsets before one record."""
    plan = GapPlan(0, 0, room=1 << 62)
    for one in missing:
        assign_placeholders(one, [plan])
    return plan.placeholders


def assign_placeholders(missing: Missing, gaps: Sequence[GapPlan]) -> None:
    """Assign placeholders to the first of these gaps with room, in their order. NoRoom without any."""
    number, first = 0, 0
    step = MAX_MESSAGE_COUNT if missing.is_batched else 1
    own = Placeholder(missing.topic, missing.queue_id, missing.first)
    size = 0 if missing.is_batched else _size(own)
    for queue_offset in range(missing.first, missing.stop, step):
        while number < len(gaps):
            if missing.is_light:
                first = gaps[number].add_light(missing, queue_offset, first) + 1
                is_added = first > 0
            else:
                count = min(step, missing.stop - queue_offset)
                is_added = gaps[number].add(own._replace(queue_offset=queue_offset, offset_count=count), size)
            if is_added:
                break
            number += 1
        else:
            text = f"no room in the log for a placeholder of queue offset {queue_offset}"
            raise NoRoom(text, offset=missing.after)


def plan_placeholders(
    runs: Iterable[SalvagedRun], segment_size: int, *, simple: bool = False, holes: bool = False
) -> dict[int, list[Placeholder]]:
    """Assign placeholders to gaps, keyed by the log offset of each gap.

    NoRoom if the gaps have no room for one.
    """
    gaps: list[GapPlan] = []
    missing: list[Missing] = []
    finder, end = QueueGaps(simple=simple, holes=holes), -1
    for run in runs:
        if run.grade is not Grade.CERTAIN:
            continue
        start = int(run.log_offsets[0])
        if end < 0 and start < segment_size:
            finder, end = QueueGaps(simple=simple, holes=holes, from_zero=True), 0
        if 0 <= end < start:
            gaps.append(GapPlan(end, start, room=start - end))
        end = run.run.end
        missing += [one for _, found in finder.split(run) for one in found]
    starts = [gap.start for gap in gaps]
    for one in missing:
        if one.first == 0 and one.stop > _room(gaps, one.before) // RECORD_MIN_SIZE:
            # The queue began late in the old store too.
            continue
        assign_placeholders(one, gaps[bisect_left(starts, one.after) : bisect_right(starts, one.before - 1)])
    return {gap.start: gap.placeholders for gap in gaps if gap.placeholders}


def _room(gaps: Iterable[GapPlan], stop: int) -> int:
    """Return the bytes of the gaps before a log offset."""
    return sum(gap.stop - gap.start for gap in gaps if gap.stop <= stop)
