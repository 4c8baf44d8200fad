"""Count the messages that a truncation of the log loses, by topic and queue, state and consumer.

    intact      a record past the cut that a salvage writes to a new store; by 5.x's rules for every version
    damaged     a readable record of a worse grade
    unreadable  no record can be read at a unit's log offset, or where the walk met damage; a record elsewhere that
                names this offset, as in a segment with another's name, is the one of the unit
    unconsumed  per consumer group: lost messages past the group's offset in config/consumerOffset.json

Leftovers past the log's end count as lost only if a queue unit points to them, and no new record has their offsets.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from store.change.plan_report import PlanReport
from store.formats.columns import DamageReason
from store.formats.java import decode_utf8
from store.formats.message import RECORD_MIN_SIZE
from store.formats.run import Int64Array, Run
from store.formats.segment_head import RECORD_PLACES
from store.formats.sets import distinct, is_in
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.end import LogEnd
from store.structures.commitlog.leftovers import Leftovers
from store.structures.commitlog.resync import has_bytes_behind, readable_behind
from store.structures.commitlog.scan import VERIFYING, Damage, Segment
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.numbering import QueueTable
from store.structures.consumequeue.overwritten import are_given_again
from store.verbs.recover.graded import LostGrades

if TYPE_CHECKING:
    from store.structures.tables.consumer_offsets import ConsumerOffsets

QueueKey = tuple[str, int]
QueueUnits = tuple[QueueKey, Int64Array, Int64Array, Int64Array]
"""Queue offsets, log offsets and sizes of a queue's units."""
UNKNOWN: QueueKey = ("", -1)
"""The queue of an unreadable record."""
_QUEUED = (0, 8)
_TRANSACTION_MASK = 0xC


@dataclass(frozen=True, slots=True)
class LostQueue:
    """Lost messages of one queue; `topic` is empty for records without a readable byte."""

    topic: str
    queue_id: int
    message_count: int = 0
    size_bytes: int = 0
    intact_count: int = 0
    damaged_count: int = 0
    unreadable_count: int = 0
    unconsumed_by_group: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LostOfGroup:
    """Lost messages of a topic that a consumer group had not consumed."""

    group: str
    topic: str
    message_count: int


@dataclass(frozen=True, slots=True)
class LostForGroup:
    """Lost messages of a queue that a consumer group had not consumed."""

    group: str
    topic: str
    queue_id: int
    messages: int


@dataclass(slots=True)
class LossReport:
    """The losses of a truncation.

    units_cut   queue units that point past the cut
    index_keys  entries of removed index files that are not rebuilt, though their messages stay
    delayed     delayed messages whose new queue units lack the deliver time: they are delivered at once
    light       light message queues of lost messages, which count once in the sums
    """

    queues: list[LostQueue] = field(default_factory=list)
    unconsumed: list[LostForGroup] = field(default_factory=list)
    units_cut: int = 0
    index_keys: int = 0
    delayed: int = 0
    light: list[LostQueue] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether no message, key or deliver time is lost; units are lost with their messages."""
        return not (self.messages or self.index_keys or self.delayed)

    @property
    def messages(self) -> int:
        return sum(row.message_count for row in self.queues)

    @property
    def intact(self) -> int:
        return sum(row.intact_count for row in self.queues)

    def by_topic(self) -> dict[str, int]:
        """Return messages per topic."""
        counts: Counter[str] = Counter()
        for row in self.queues:
            counts[row.topic] += row.message_count
        return dict(sorted(counts.items()))

    def by_group(self) -> dict[str, int]:
        """Return unconsumed messages per consumer group."""
        counts: Counter[str] = Counter()
        for row in self.unconsumed:
            counts[row.group] += row.messages
        return dict(sorted(counts.items()))

    def counts(self) -> LostCounts:
        """Return the sums over all queues."""
        return LostCounts(
            self.messages,
            sum(row.size_bytes for row in self.queues),
            self.intact,
            sum(row.damaged_count for row in self.queues),
            sum(row.unreadable_count for row in self.queues),
            self.units_cut,
            self.index_keys,
            self.delayed,
        )

    def queue_rows(self) -> list[LostQueue]:
        """Return the queues with the messages that each consumer group had not consumed, the most first."""
        groups: dict[QueueKey, dict[str, int]] = {}
        for row in self.unconsumed:
            groups.setdefault((row.topic, row.queue_id), {})[row.group] = row.messages
        rows = sorted([*self.queues, *self.light], key=lambda row: -row.message_count)
        return [replace(row, unconsumed_by_group=groups.get((row.topic, row.queue_id), {})) for row in rows]

    def group_rows(self) -> list[LostOfGroup]:
        """Return a row per consumer group and topic."""
        counts: Counter[tuple[str, str]] = Counter()
        for row in self.unconsumed:
            counts[row.group, row.topic] += row.messages
        return [LostOfGroup(*names, counts[names]) for names in sorted(counts)]


@dataclass
class LostCounts(PlanReport):
    """Sums of a loss report."""

    lost_messages: int = 0
    lost_bytes: int = 0
    lost_intact: int = 0
    lost_damaged: int = 0
    lost_unreadable: int = 0
    lost_units_cut: int = 0
    lost_index_keys: int = 0
    lost_delayed: int = 0


@dataclass
class Losses(LostCounts):
    """A loss report in a plan."""

    lost: list[LostQueue] = field(default_factory=list)
    unconsumed: list[LostOfGroup] = field(default_factory=list)

    def take(self, found: LossReport) -> None:
        """Copy the counts and rows of a loss report."""
        vars(self).update(vars(found.counts()))
        self.lost, self.unconsumed = found.queue_rows(), found.group_rows()


class LossTally:
    """The sums of lost messages by queue."""

    def __init__(self) -> None:
        self._rows: dict[QueueKey, LostQueue] = {}
        self._offsets: dict[QueueKey, list[Int64Array]] = {}
        """Queue offsets of the lost messages that consumers see."""

    def count(self, key: QueueKey, messages: int, size: int, state: str) -> None:
        """Add messages that are all intact, damaged or unreadable."""
        row = self._rows.get(key) or LostQueue(*key)
        row = replace(row, message_count=row.message_count + messages, size_bytes=row.size_bytes + size)
        name: Any = f"{state}_count"
        self._rows[key] = replace(row, **{name: getattr(row, name) + messages})

    def note_offsets(self, key: QueueKey, queue_offsets: Int64Array) -> None:
        """Note the queue offsets of lost messages that consumers see."""
        self._offsets.setdefault(key, []).append(queue_offsets)

    def rows(self) -> list[LostQueue]:
        """Return a row per queue, by name."""
        return sorted(self._rows.values(), key=lambda row: (row.topic, row.queue_id))

    def unconsumed(self, consumed: ConsumerOffsets) -> list[LostForGroup]:
        """Return the lost messages at or past the groups' offsets."""
        found = []
        for (topic, group), offsets in sorted(consumed.items(), key=lambda item: (item[0][1], item[0][0])):
            for (lost_topic, queue_id), pieces in sorted(self._offsets.items()):
                if lost_topic == topic:
                    count = sum(int((piece >= offsets.get(queue_id, 0)).sum()) for piece in pieces)
                    found += [LostForGroup(group, topic, queue_id, count)] if count else []
        return found

    @property
    def has_offsets(self) -> bool:
        """Whether consumers see one of the lost messages."""
        return bool(self._offsets)


class LossCounter:
    """A count of the records, and then of the units, in a lost part of the log.

    without_grades  takes every record with a right CRC for intact, without a read of queues and index
    """

    def __init__(self, opened: OpenedStore, *, without_grades: bool = False) -> None:
        self._opened = opened
        self._grades = None if without_grades else LostGrades(opened)
        self._table = QueueTable()
        self._tally = LossTally()
        self._places: list[Int64Array] = []
        """Log offsets of every record that was counted, that lies elsewhere, or whose queue offset was given again."""
        self._leftovers: list[tuple[Run, Int64Array]] = []
        self._holes: list[tuple[int, int]] = []
        """Log offset and claimed size of each damage without a readable record."""
        self._missing: list[tuple[QueueKey, Int64Array, Int64Array]] = []
        """Queue offsets and sizes of units without a record past the cut."""
        self._built: dict[QueueKey, tuple[ConsumeQueue, int]] = {}
        self.units_cut = 0

    def dispatch(self, run: Run) -> None:
        """Note the records of the kept log that name another log offset: their units point there."""
        named = run.named_offsets
        self._places.append(named[named != run.log_offsets])

    def read_behind(self, segments: Sequence[Segment], end: LogEnd) -> None:
        """Count readable messages at or past the log's end.

        Segments never written there are not read.
        """
        at, fs = end.log_end, self._opened.fs
        written = [
            segment
            for segment in segments
            if segment.file_start + segment.size > at and has_bytes_behind(segment, max(0, at - segment.file_start), fs)
        ]
        holes: list[tuple[int, int]] = []
        runs = _runs_behind(written, at, holes)
        first = next(runs, None)
        leftovers = Leftovers(segments, end, first[0] if first else None)
        is_replaced = bool(first and leftovers.is_overwritten and are_given_again(segments[0], at, first[0]))
        for run, is_damaged in itertools.chain([first] if first else [], runs):
            stale = leftovers.among(run)
            self._leftovers += [(run, np.flatnonzero(stale))] if stale.any() and not is_replaced else []
            self._places += [run.log_offsets[stale]] if is_replaced else []
            self.add(run, np.flatnonzero(~stale), is_damaged=is_damaged)
        # After zeros in the same segment, only units distinguish a lost record from a leftover.
        behind_zeros = at if leftovers.stop is None else leftovers.stop
        self._holes += [hole for hole in holes if hole[0] >= behind_zeros]

    def read_between(self, segments: Sequence[Segment], low: int, high: int) -> None:
        """Count the readable messages from log offset `low`, a record's start, to before `high`."""
        holes = list[tuple[int, int]]()
        for run, is_damaged in _runs_behind([s for s in segments if s.file_start < high], low, holes):
            rows = np.flatnonzero(run.columns.position + run.file_start < high)
            self.add(run, rows, is_damaged=is_damaged)
        self._holes += [hole for hole in holes if hole[0] < high]

    def add(self, run: Run, rows: Int64Array, *, is_damaged: bool = False) -> None:
        """Count these records of a run."""
        if not len(rows):
            return
        columns = run.columns
        numbers = self._table.assign(run.buffer, run.array, run.count, queued_only=False)
        self._places += [columns.position[rows] + run.file_start, columns.log_offset[rows]]
        certain = np.full(len(rows), not is_damaged)
        if self._grades is not None and not is_damaged:
            certain = self._grades.are_certain(run, rows)
        queued = is_in(columns.sys_flag[rows] & _TRANSACTION_MASK, _QUEUED)
        for number in distinct(numbers[rows]).tolist():
            topic, queue_id = self._table.queues[number]
            key = (decode_utf8(topic), queue_id)
            own = numbers[rows] == number
            for state, of_state in (("intact", own & certain), ("damaged", own & ~certain)):
                self._tally.count(key, int(of_state.sum()), int(columns.size[rows[of_state]].sum()), state)
            self._tally.note_offsets(key, columns.queue_offset[rows[own & queued]])

    def read_units(self, low: int, high: int) -> None:
        """Count the units that point into low … high - 1; those without a record are unreadable messages."""
        queues = (queue for queue in self._opened.queues.reaching(low) if not queue.ends_before(low))
        self.count_units((((q.topic, q.queue_id), *units_between(q, low, high)) for q in queues), low, high)

    def count_units(self, queues: Iterable[QueueUnits], low: int, high: int) -> None:
        """Count these units; all of them point into low … high - 1."""
        places = np.sort(np.concatenate([np.empty(0, np.int64), *self._places]))
        named: list[Int64Array] = []
        for key, numbers, offsets, sizes in queues:
            self.units_cut += len(offsets)
            named.append(offsets)
            missing = ~is_in(offsets, places)
            shown = self._leftover_rows(offsets[missing])
            missing[missing] = ~is_in(offsets[missing], shown)
            if missing.any():
                self._missing.append((key, numbers[missing], self._record_sizes(sizes[missing])))
        known = np.concatenate([places, *named])
        for at, size in self._holes:
            # A search finds the record after a damaged header.
            if low <= at < high and not any(at + place in known for place in RECORD_PLACES):
                self._tally.count(UNKNOWN, 1, size, "unreadable")

    def _record_sizes(self, sizes: Int64Array) -> Int64Array:
        """Return the sizes, and 0 for an impossible one: a damaged unit's bytes were never in the log."""
        largest = self._opened.config.mapped_file_size_commit_log
        return np.where((sizes >= RECORD_MIN_SIZE) & (sizes <= largest), sizes, 0)

    def note_built(self, queue: ConsumeQueue, queue_offset: int) -> None:
        """Note that units are rebuilt from `queue_offset` on: damaged units there lose no messages."""
        self._built[queue.topic, queue.queue_id] = queue, queue_offset

    def _count_missing(self) -> None:
        for key, numbers, sizes in self._missing:
            queue, begin = self._built.get(key, (None, 0))
            lost = (numbers < begin) | (numbers >= (queue.max_offset if queue is not None else begin))
            if lost.any():
                self._tally.count(key, int(lost.sum()), int(sizes[lost].sum()), "unreadable")
                self._tally.note_offsets(key, numbers[lost])

    def _leftover_rows(self, offsets: Int64Array) -> Int64Array:
        """Count the leftovers at the log offsets of units, and return their log offsets."""
        found = [np.empty(0, np.int64)]
        for run, rows in self._leftovers if len(offsets) else ():
            starts = run.columns.position[rows] + run.file_start
            named = rows[is_in(starts, offsets)]
            self.add(run, named)
            found.append(run.columns.position[named] + run.file_start)
        return np.concatenate(found)

    def report(self) -> LossReport:
        """Return everything that was counted."""
        self._count_missing()
        return LossReport(self._tally.rows(), self._unconsumed(), self.units_cut)

    def _unconsumed(self) -> list[LostForGroup]:
        if not self._tally.has_offsets:
            return []
        # Most recoveries lose nothing, and tables take long to import.
        from store.structures.tables.consumer_offsets import read_consumer_offsets

        return self._tally.unconsumed(read_consumer_offsets(self._opened.layout.config, self._opened.fs))


def units_between(queue: ConsumeQueue, low: int, high: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return offsets and sizes of the queue's units that point into low … high - 1, newest file first.

    Files are read from the newest backwards until one begins before `low`.
    """
    found: list[tuple[Int64Array, Int64Array, Int64Array]] = [(np.empty(0, np.int64),) * 3]
    for file in reversed(queue.files.files):
        found.append(queue.units_between(file, low, high))
        if 0 <= queue.first_log_offset(file) < low:
            break
    numbers, offsets, sizes = (np.concatenate(part) for part in zip(*found, strict=True))
    return numbers, offsets, sizes


def _runs_behind(
    segments: Sequence[Segment], log_offset: int, holes: list[tuple[int, int]]
) -> Iterator[tuple[Run, bool]]:
    """Yield the runs from `log_offset` on, and whether bodies are damaged; add other damage to `holes`."""
    bad_body = False
    by_start = {segment.file_start: segment for segment in segments}
    for step in readable_behind(segments, log_offset, rules=VERIFYING, with_bad_bodies=True):
        if isinstance(step, Run):
            yield step, bad_body
        bad_body = isinstance(step, Damage) and step.reason == DamageReason.BAD_CRC
        if isinstance(step, Damage) and not bad_body:
            holes.append((step.file_start + step.position, _claimed_bytes(by_start[step.file_start], step)))


def _claimed_bytes(segment: Segment, damage: Damage) -> int:
    """Return the claimed size of a damaged record, 0 if impossible; for unreadable bytes, their number."""
    if damage.reason == DamageReason.UNREADABLE:
        return damage.unreadable[1] - damage.unreadable[0]
    head = bytes(segment.buffer[damage.position : damage.position + 4])
    size = int.from_bytes(head, "big", signed=True)
    return size if RECORD_MIN_SIZE <= size <= segment.size - damage.position else 0
