"""A restored log of some topics alone, or with skipped queue offsets.

    1. topics   their records, in log order, at new log offsets
    2. bump     a placeholder for each queue offset to skip, past the newest record of its queue
    3. expired  with topics, a placeholder for the last offset of a queue whose records have all expired

Without step 3 the first message of such a queue would get offset 0 again. A skipped offset has a record: a broker that
rebuilds the queue takes its next offset from the log. Queues that only the broker itself reads skip nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from store.errors import BadRequest, quoted
from store.formats.message import INNER_BATCH, QUEUE_OFFSET_AT
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Run
from store.formats.topics import SYSTEM_PREFIX, shares_records, topic_fault
from store.structures.consumequeue.numbering import QueueTable
from store.verbs.backup.moment import NEWEST, Moment
from store.verbs.backup.queue_ends import BackedEnd
from store.verbs.salvage.grade import stretches
from store.verbs.salvage.log_writer import LogWriter, Moves
from store.verbs.salvage.placeholder import SKIPPED, Placeholder, encode_placeholder

Queue = tuple[str, int]
_BLOCK_BYTES = 1 << 20
"""Placeholders of so many bytes are written at once."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The topics and the moment to restore, and the queue offsets to skip.

    moment  the log's end
    topics  empty for all of them
    bump    queue offsets to skip
    """

    moment: Moment = NEWEST
    topics: Collection[str] = ()
    bump: int = 0

    @property
    def is_all(self) -> bool:
        return not (self.topics or self.bump)

    def has(self, topic: str) -> bool:
        """Return whether a topic is restored."""
        return not self.topics or topic in self.topics


@dataclass(slots=True)
class SelectedLog:
    """The new log.

    jumps              the next offset of each bumped queue: without the bump, and with it
    refused            queues with records of several messages, which are not bumped
    placeholder_count  records that are no message of the backup
    """

    log_end: int = 0
    last_ms: int = 0
    placeholder_count: int = 0
    jumps: dict[Queue, tuple[int, int]] = field(default_factory=dict)
    refused: list[Queue] = field(default_factory=list)

    def describe_refused(self) -> list[str]:
        """Return a sentence for each queue that is not bumped."""
        reason = "its records hold several messages, so that its next queue offset stays"
        return [f"{topic}/{queue_id} is not bumped: {reason}" for topic, queue_id in self.refused]


EVERYTHING = Selection()


class _Queues:
    """The next offset of each queue, from the records of the log."""

    def __init__(self, selection: Selection) -> None:
        self._selection, self.table = selection, QueueTable()
        self._next = np.empty(0, np.int64)
        self._batched = np.empty(0, np.bool_)
        self._has = np.empty(0, np.bool_)

    def take(self, run: Run) -> npt.NDArray[np.bool_]:
        """Count the records of a run, and mark those to restore."""
        slots = self.table.assign(run.buffer, run.array, run.count)
        names = self.table.names[len(self._next) :]
        self._next = np.concatenate([self._next, np.zeros(len(names), np.int64)])
        self._batched = np.concatenate([self._batched, np.zeros(len(names), np.bool_)])
        self._has = np.concatenate([self._has, np.array([self._selection.has(topic) for topic, _ in names], np.bool_)])
        is_queued = slots >= 0
        columns = run.columns
        np.maximum.at(self._next, slots[is_queued], columns.queue_offset[is_queued] + 1)
        self._batched[slots[is_queued & (columns.sys_flag & INNER_BATCH != 0)]] = True
        found = np.zeros(run.count, np.bool_)
        found[is_queued] = self._has[slots[is_queued]]
        return found

    def next_offsets(self, ends: Iterable[BackedEnd], log_end: int) -> Iterator[tuple[Queue, int, bool]]:
        """Yield each queue to be restored, its next offset, and whether the log has a record of it."""
        met = dict(zip(self.table.names, self._next.tolist(), strict=True))
        for queue, next_offset in met.items():
            if self._selection.has(queue[0]):
                yield queue, next_offset, True
        for end in ends:
            queue = end.topic, end.queue_id
            if queue not in met and self._selection.has(end.topic):
                yield queue, end.max_offset if end.newest < log_end else end.min_offset, False

    def batched(self) -> set[Queue]:
        """Return the queues with records of several messages."""
        return {self.table.names[slot] for slot in np.flatnonzero(self._batched).tolist()}


def write_selected(
    runs: Iterable[Run], writer: LogWriter, selection: Selection, ends: Sequence[BackedEnd], log_end: int
) -> SelectedLog:
    """Append the records of chosen topics to an empty log, and placeholders to any log.

    runs     of the backup's log up to the moment
    log_end  of the backup at the moment
    """
    found, queues, moves = SelectedLog(), _Queues(selection), Moves()
    for run in runs:
        wanted, columns = queues.take(run), run.columns
        if wanted.any():
            found.last_ms = int(columns.store_timestamp_ms[wanted].max())
        if selection.topics:
            writer.append(_bytes_of(run, wanted), columns.size[wanted], moves=moves)
    batched, met = queues.batched(), {topic for topic, _ in queues.table.names} | {end.topic for end in ends}
    if unknown := [topic for topic in selection.topics if topic not in met]:
        raise BadRequest(f"the backup has no queue of {', '.join(map(quoted, unknown))}")
    planned: list[tuple[Queue, range]] = []
    for queue, next_offset, has_record in queues.next_offsets(ends, log_end):
        skipped = selection.bump if _is_consumed(queue[0]) else 0
        if skipped and queue in batched:
            found.refused.append(queue)
            skipped = 0
        if skipped:
            found.jumps[queue] = next_offset, next_offset + skipped
        elif next_offset and selection.topics and not has_record:
            next_offset, skipped = next_offset - 1, 1
        planned.append((queue, range(next_offset, next_offset + skipped)))
    found.placeholder_count = _append_placeholders(writer, planned, found.last_ms)
    writer.close()
    found.log_end = writer.position
    return found


def _is_consumed(topic: str) -> bool:
    """Return whether consumers read a topic, and its queues hold records of its own."""
    return not (topic_fault(topic) or topic.startswith(SYSTEM_PREFIX) or shares_records(topic))


def _bytes_of(run: Run, wanted: npt.NDArray[np.bool_]) -> memoryview:
    position, ends = run.columns.position, run.columns.position + run.columns.size
    parts = [
        run.buffer[int(position[first]) : int(ends[stop - 1])] for first, stop in stretches(wanted) if wanted[first]
    ]
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


def _append_placeholders(writer: LogWriter, planned: Sequence[tuple[Queue, range]], time_ms: int) -> int:
    """Append all placeholders, and return their number. BadRequest before the first if space is short."""
    sizes = [len(_placeholder(queue, 0)) + UNIT_SIZE for queue, _ in planned]
    counts = [offsets.stop - offsets.start for _, offsets in planned]
    needed = sum(size * count for size, count in zip(sizes, counts, strict=True))
    if needed > (free := writer.free_bytes()):
        reason = f"placeholders for {sum(counts)} queue offsets take {needed} bytes, and {free} are free"
        raise BadRequest(reason, hint="skip fewer queue offsets")
    for queue, offsets in planned:
        record = np.frombuffer(_placeholder(queue, time_ms), np.uint8)
        step = max(1, _BLOCK_BYTES // len(record))
        for first in range(offsets.start, offsets.stop, step):
            numbers = np.arange(first, min(first + step, offsets.stop))
            block = np.tile(record, (len(numbers), 1))
            block[:, QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)
            # They may move into the next segment; no record refers to them.
            writer.append(memoryview(block.tobytes()), np.full(len(numbers), len(record)), moves=Moves())
    return sum(counts)


def _placeholder(queue: Queue, time_ms: int) -> bytes:
    name = queue[0].encode("utf-8", "surrogateescape")
    return encode_placeholder(Placeholder(name, queue[1], 0), 0, time_ms, kind=SKIPPED)
