"""Count the messages that a salvage can't write to its target.

    damaged     a readable record, of a grade that the target does not accept
    unreadable  a unit's log offset in a gap; a queue offset that is missing between two records of a queue with a gap
                between them; a gap or a torn head without either, as one message of no known queue

A readable record is one message. If its queue unit is in another queue or at another queue offset, the unit is right.

A message in light message queues counts once in the sums. Each of its light queues has a row too, without bytes.

A missing queue offset without a gap in the log is no loss: the units of some queues count by more than one. Messages
that expired before the first file are no loss either.

If a half message's op record is lost, a broker checks the transaction again, and may commit it a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from store.formats.java import decode_utf8
from store.formats.message import RECORD_MIN_SIZE
from store.formats.run import Int64Array
from store.formats.sets import distinct, is_in
from store.formats.topics import HALF_TOPIC, OP_TOPIC
from store.structures.consumequeue.numbering import QueueTable
from store.structures.tables.consumer_offsets import ConsumerOffsets
from store.verbs.recover.lost import UNKNOWN, LossReport, LossTally, QueueKey
from store.verbs.salvage.derived_files import NamedUnits
from store.verbs.salvage.evidence import Evidence
from store.verbs.salvage.grade import Grade, SalvagedRun, TornRecord
from store.verbs.salvage.log_gaps import Gap
from store.verbs.salvage.queue_gaps import Missing, QueueGaps

_NONE = np.empty((2, 0), np.int64)


@dataclass(frozen=True, slots=True)
class LostOps:
    """The numbers of lost op records of transactions.

    known     those of RMQ_SYS_TRANS_OP_HALF_TOPIC
    possible  lost records of no known queue
    """

    known: int
    possible: int


class SalvageLosses:
    """The losses of a salvage: runs are added in log order, and counted once the gaps are known.

    taken  the grades that the target accepts
    """

    def __init__(self, taken: frozenset[Grade]) -> None:
        self._taken = taken
        self._tally = LossTally()
        self._light = LossTally()
        self._table = QueueTable()
        self._queue_gaps = QueueGaps()
        self._missing: list[Missing] = []
        self._doubtful: dict[QueueKey, list[Int64Array]] = {}
        """Queue and log offsets of the records that are not certain."""
        self._units_cut = 0

    def add(self, salvaged: SalvagedRun, evidence: Evidence) -> None:
        """Note missing queue offsets between certain records, and records that are not accepted."""
        if salvaged.grade is Grade.CERTAIN:
            self._missing += [one for _, found in self._queue_gaps.split(salvaged) for one in found]
            return
        start, stop = int(salvaged.log_offsets[0]), int(salvaged.log_offsets[-1]) + 1
        units, queues = evidence.units_in(start, stop)
        units = units.rows(is_in(units.log_offset, salvaged.log_offsets))
        is_lost = salvaged.grade not in self._taken
        for key, found in evidence.light_units_in(start, stop):
            light = found.rows(is_in(found.log_offset, salvaged.log_offsets))
            self._doubtful.setdefault(key, []).append(np.stack([light.queue_offset, light.log_offset]))
            if is_lost:
                self._count_light(key, light.queue_offset, "damaged")
        for key, rows in self._places(salvaged, units, queues).items():
            row, queue_offset, is_seen = np.array(rows, np.int64).T
            self._doubtful.setdefault(key, []).append(np.stack([queue_offset, salvaged.log_offsets[row]]))
            if is_lost:
                self._tally.count(key, len(rows), int(salvaged.run.columns.size[row].sum()), "damaged")
                self._tally.note_offsets(key, queue_offset[is_seen > 0])
        if is_lost:
            self._units_cut += len(units.log_offset)

    def _places(
        self, salvaged: SalvagedRun, units: NamedUnits, queues: Sequence[QueueKey]
    ) -> dict[QueueKey, list[tuple[int, int, bool]]]:
        """Return (row, queue offset, whether consumers see it) by queue, from units or else from heads."""
        run, log_offsets = salvaged.run, salvaged.log_offsets
        numbers = self._table.assign(run.buffer, run.array, run.count, queued_only=False).tolist()
        is_seen = (self._table.assign(run.buffer, run.array, run.count) >= 0).tolist()
        own = [
            (self._table.names[number], offset)
            for number, offset in zip(numbers, run.columns.queue_offset.tolist(), strict=True)
        ]
        said: dict[int, list[tuple[QueueKey, int]]] = {}
        rows = np.searchsorted(log_offsets, units.log_offset).tolist()
        for row, number, offset in zip(rows, units.queue.tolist(), units.queue_offset.tolist(), strict=True):
            said.setdefault(row, []).append((queues[number], offset))
        places: dict[QueueKey, list[tuple[int, int, bool]]] = {}
        for row, place in enumerate(own):
            key, offset = place if place in said.get(row, [place]) else said[row][0]
            places.setdefault(key, []).append((row, offset, is_seen[row] or row in said))
        return places

    def report(
        self,
        gaps: Sequence[Gap],
        torn: Sequence[TornRecord],
        covered_end: int,
        evidence: Evidence,
        consumed: ConsumerOffsets,
    ) -> LossReport:
        """Return everything that was lost, after the walk.

        covered_end  log offset after the last record: a torn head past it, too short for a gap, is lost too
        """
        named: dict[QueueKey, list[Int64Array]] = {}
        unnamed = [gap for gap in gaps if not self._count_units(gap, evidence, named)]
        room, own = _Room(gaps), [one for one in self._missing if not one.is_light]
        for one in self._missing:
            self._count_missing(one, room, named)
        for gap in unnamed:
            if not any(one.after < gap.stop and gap.log_offset < one.before for one in own):
                heads = [head.size for head in torn if gap.log_offset <= head.log_offset < gap.stop]
                self._tally.count(UNKNOWN, len(heads) or 1, sum(heads) or gap.size, "unreadable")
        for head in torn:
            if head.log_offset >= covered_end and not any(gap.log_offset <= head.log_offset < gap.stop for gap in gaps):
                self._tally.count(UNKNOWN, 1, head.size, "unreadable")
        unconsumed = self._tally.unconsumed(consumed) + self._light.unconsumed(consumed)
        return LossReport(self._tally.rows(), unconsumed, self._units_cut, light=self._light.rows())

    def ops(self, lost: LossReport) -> LostOps | None:
        """Count lost op records; None without any, or without a certain half message."""
        counts = lost.by_topic()
        found = LostOps(counts.get(OP_TOPIC, 0), counts.get(UNKNOWN[0], 0))
        has_halves = any(topic == HALF_TOPIC for topic, _ in self._queue_gaps.table.names)
        return found if has_halves and (found.known or found.possible) else None

    def _count_units(self, gap: Gap, evidence: Evidence, named: dict[QueueKey, list[Int64Array]]) -> bool:
        """Count the messages in the gap by their units, and return whether there are any."""
        units, queues = evidence.units_in(gap.log_offset, gap.stop)
        self._units_cut += len(units.log_offset)
        # A record is one message, however many units it has.
        _, first = np.unique(units.log_offset, return_index=True)
        units = units.rows(first)
        for key, light in evidence.light_units_in(gap.log_offset, gap.stop):
            self._count_light(key, light.queue_offset, "unreadable")
            named.setdefault(key, []).append(light.queue_offset)
        for number in distinct(units.queue).tolist():
            own = units.rows(units.queue == number)
            # Leave out sizes of damaged units.
            size = int(own.size[own.size <= gap.size].sum())
            self._tally.count(queues[number], len(own.queue_offset), size, "unreadable")
            self._tally.note_offsets(queues[number], own.queue_offset)
            named.setdefault(queues[number], []).append(own.queue_offset)
        return len(first) > 0

    def _count_light(self, key: QueueKey, lost: Int64Array, state: str) -> None:
        """Count messages of a light queue that count in their own queue too."""
        if len(lost):
            self._light.count(key, len(lost), 0, state)
            self._light.note_offsets(key, lost)

    def _count_missing(self, one: Missing, room: _Room, named: dict[QueueKey, list[Int64Array]]) -> None:
        """Count missing queue offsets without a unit or a doubtful record, as many as the gaps can hold."""
        key = decode_utf8(one.topic), one.queue_id
        doubtful, log_offsets = np.concatenate([_NONE, *self._doubtful.get(key, ())], axis=1)
        known = np.concatenate([*named.get(key, ()), doubtful])
        is_inside = (one.first <= known) & (known < one.stop)
        stop = min(one.stop, one.first + room.between(one.after, one.before) + len(distinct(known[is_inside])))
        wanted = np.arange(one.first, stop)
        lost = wanted[~is_in(wanted, known)]
        # A record between the two with a damaged queue offset had one of the missing queue offsets.
        is_stray = (one.after <= log_offsets) & (log_offsets < one.before)
        is_stray &= (doubtful < one.first) | (doubtful >= one.stop)
        lost = lost[: max(0, len(lost) - int(is_stray.sum()))]
        if one.is_light:
            self._count_light(key, lost, "unreadable")
        elif len(lost):
            self._tally.count(key, len(lost), 0, "unreadable")
            self._tally.note_offsets(key, lost)


class _Room:
    """The number of records that the gaps of the log can have held."""

    def __init__(self, gaps: Sequence[Gap]) -> None:
        self._starts = np.array([gap.log_offset for gap in gaps], np.int64)
        self._stops = np.array([gap.stop for gap in gaps], np.int64)

    def between(self, start: int, stop: int) -> int:
        overlaps = np.minimum(self._stops, stop) - np.maximum(self._starts, start)
        return int(np.maximum(overlaps, 0).sum()) // RECORD_MIN_SIZE
