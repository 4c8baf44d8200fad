"""Count the messages of the log that no queue shows.

    1. each queue's entries, and its messages in the log, are summed up to one number each
    2. if the two numbers differ, the log is read once more: messages count if no entry has their log offset and size

Step 1 keeps one number per queue, so that a store of any size needs little memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from store.formats.derived import units_of
from store.formats.run import Int64Array, Stretch
from store.formats.sets import distinct, is_in
from store.opened.opened_store import OpenedStore
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.consumequeue.expect import Units, expected_units, with_light_units
from store.structures.consumequeue.numbering import QueueTable
from store.structures.consumequeue.queue_set import QueueKey

_Marks = npt.NDArray[np.uint64]
_ODD, _OTHER_ODD, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(32)
_MASK = (1 << 64) - 1


class Shown(Protocol):
    """The entries of all queues, in files or in a database."""

    def sums(self, log: Stretch) -> Mapping[QueueKey, int]:
        """Return the marks of each queue's entries that point into a stretch of the log, added up."""

    def marks(self, key: QueueKey, log: Stretch) -> _Marks:
        """Return the marks of one queue's entries that point into a stretch of the log."""


class Reached(Protocol):
    """The queues of a database after a start's scan."""

    def queues(self) -> list[QueueKey]:
        """Return the queues that have units."""

    def entries(self, queue: QueueKey) -> tuple[Int64Array, Int64Array]:
        """Return log offset and size of each unit of a queue."""

    def next_offset(self, queue: QueueKey, log_end: int) -> int:
        """Return the next queue offset of a queue."""


def unseen_messages(opened: OpenedStore, log: Stretch, shown: Shown | None = None) -> dict[QueueKey, int]:
    """Count, by topic and queue id, the messages of a stretch without an entry in their queue.

    shown  the entries, by default those of queue files
    """
    shown = shown or _InFiles(opened.queues)
    sums: Counter[QueueKey] = Counter()
    for units in _messages(opened, log):
        _add_by_queue(sums, units)
    known = shown.sums(log)
    unlike = {key for key, total in sums.items() if total & _MASK != known.get(key, 0)}
    found: Counter[QueueKey] = Counter()
    for segment in opened.log.segments.files if unlike else ():
        part = Stretch(max(log.start, segment.file_start), min(log.stop, segment.file_start + segment.size))
        entries: dict[QueueKey, _Marks] = {}
        for units in _messages(opened, part):
            _count_unseen(found, units, unlike, entries, shown, part)
    return dict(sorted(found.items()))


def _messages(opened: OpenedStore, log: Stretch) -> Iterator[Units]:
    """Yield the entries that the messages of a stretch should have."""
    table, light = QueueTable(), dict[QueueKey, int]()
    for run in opened.runs(*log):
        units = expected_units(run, (), table)
        if opened.has_light_units:
            units, _ = with_light_units(run, units, table, light)
        yield units


def _marks(log_offsets: Int64Array, sizes: Int64Array) -> _Marks:
    """Return a number for each pair of log offset and size; if pairs differ, so do the sums."""
    mixed = log_offsets.astype(np.uint64) * _ODD + sizes.astype(np.uint64)
    return (mixed ^ (mixed >> _HALF)) * _OTHER_ODD


def _add_by_queue(sums: Counter[QueueKey], units: Units) -> None:
    order = np.argsort(units.queue, kind="stable")
    if len(order):
        queues = units.queue[order]
        starts = np.flatnonzero(np.diff(queues, prepend=-1))
        totals = np.add.reduceat(_marks(units.log_offset, units.size)[order], starts)
        for number, total in zip(queues[starts].tolist(), totals.tolist(), strict=True):
            # Several damaged topics may decode to one name.
            sums[units.queues[number]] += total


class _InFiles:
    def __init__(self, queues: ConsumeQueueStore) -> None:
        self._queues = queues

    def sums(self, log: Stretch) -> Mapping[QueueKey, int]:
        resting = self._queues.resting()
        sums = {(queue.topic, queue.queue_id): int(_entries(queue, log).sum()) for queue in self._queues.awake()}
        ends = np.cumsum([one.unit_count for one in resting.values()])
        if resting:
            units = units_of(b"".join(one.units for one in resting.values()))
            offsets = units["log_offset"].astype(np.int64)
            inside = (offsets >= log.start) & (offsets < log.stop)
            marks = np.where(inside, _marks(offsets, units["size"]), np.uint64(0))
            totals = np.add.reduceat(marks, np.concatenate(([0], ends[:-1])))
            sums |= dict(zip(resting, totals.tolist(), strict=True))
        return sums

    def marks(self, key: QueueKey, log: Stretch) -> _Marks:
        queue = self._queues.find(*key)
        return _entries(queue, log) if queue is not None else np.empty(0, np.uint64)


class InDatabase:
    """The entries of a database by queue, as log offsets and sizes, and each queue's next offset."""

    def __init__(self, reach: Reached, log_end: int) -> None:
        self._queues, self._read = reach.queues(), cache(reach.entries)
        self.next_offset: Callable[[QueueKey], int] = lambda queue: reach.next_offset(queue, log_end)

    def sums(self, log: Stretch) -> Mapping[QueueKey, int]:
        """Return the marks of each queue's entries that point into a stretch of the log, added up."""
        return {key: int(self.marks(key, log).sum()) for key in self._queues}

    def marks(self, key: QueueKey, log: Stretch) -> _Marks:
        """Return the marks of one queue's entries that point into a stretch of the log."""
        offsets, sizes = self._read(key)
        inside = (offsets >= log.start) & (offsets < log.stop)
        return _marks(offsets[inside], sizes[inside])


def _entries(queue: ConsumeQueue, log: Stretch) -> _Marks:
    """Return the marks of a queue's entries, from its beginning on, that point into a stretch of the log."""
    found = [np.empty(0, np.uint64)]
    for file in queue.files.files:
        numbers, offsets, sizes = queue.units_between(file, *log)
        live = numbers >= queue.min_offset
        found.append(_marks(offsets[live], sizes[live]))
    return np.concatenate(found)


def _count_unseen(
    found: Counter[QueueKey],
    units: Units,
    wanted: Container[QueueKey],
    entries: dict[QueueKey, _Marks],
    shown: Shown,
    log: Stretch,
) -> None:
    """Add the messages of `wanted` queues that have no entry.

    entries  caches the entries of the queues met in this stretch
    """
    marks = _marks(units.log_offset, units.size)
    for number in distinct(units.queue).tolist():
        key = units.queues[number]
        if key not in wanted:
            continue
        if key not in entries:
            entries[key] = shown.marks(key, log)
        unseen = int((~is_in(marks[units.queue == number], entries[key])).sum())
        if unseen:
            found[key] += unseen
