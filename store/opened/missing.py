"""Finds queue units that are missing although the log has their records, and rebuilds them.

    files of the queue        may be lost               stretch of log to read
    no unit                   the folder, or its file   the whole log
    first file not at 0       the file before it        before the first unit's record
    a gap between two files   the file between them     between the units on both sides
    last file full or empty   the file after it         after the last unit's record

Expired messages leave the same picture, so a stretch may turn out to lack nothing.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from store import kernels
from store.files.mapped_file import MappedFile
from store.files.overlay import OverlayFileQueue
from store.formats.derived import is_pre_blank
from store.formats.queue_unit import PRE_BLANK, UNIT_SIZE, encode_ext_address
from store.formats.run import Int64Array, Run, Stretch
from store.formats.sets import distinct
from store.formats.topics import shares_records
from store.layout import is_topic_folder_name
from store.structures.commitlog.resync import readable_behind
from store.structures.commitlog.scan import Damage, ScanRules, Segment
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.consumequeue.numbering import QueueTable
from store.structures.consumequeue.queue_set import QueueKey
from store.structures.consumequeue.unit_array import extension_positions, unit_array


def lost_stretches(queue: ConsumeQueue, log: Stretch) -> list[Stretch]:
    """Return the stretches of log whose units a recovered queue may lack, in log order."""
    if queue.holds_batches:
        # A batch unit's queue offset gives no position in the files, so only units after a full last file are found.
        is_full = queue.files.max_offset % queue.files.file_size == 0
        return [Stretch(max(queue.max_physic_offset, log.start), log.stop)] if is_full else []
    ends = [end for file in queue.files.files if (end := _ends_of(file)) is not None]
    if not ends:
        return [log]
    found = []
    if ends[0].file.file_start > 0:
        found.append(Stretch(log.start, ends[0].first))
    for before, after in pairwise(ends):
        if before.file.file_start + before.file.size != after.file.file_start:
            found.append(Stretch(before.last, after.first))
    if queue.files.max_offset % queue.files.file_size == 0:
        found.append(Stretch(ends[-1].last, log.stop))
    return [stretch for stretch in found if stretch.start < stretch.stop]


class _FileEnds(NamedTuple):
    """The log offset of the record of a file's first unit, and the end of the record of its last."""

    file: MappedFile
    first: int
    last: int


def _ends_of(file: MappedFile) -> _FileEnds | None:
    units = unit_array(file)[: file.readable_position // UNIT_SIZE]
    live = ~is_pre_blank(units)
    if not live.any():
        return None
    first = int(np.argmax(live))
    return _FileEnds(file, int(units["log_offset"][first]), int(units["log_offset"][-1]) + int(units["size"][-1]))


@dataclass(slots=True)
class Repair:
    """The repair of one queue: place units of `stretches`, append units from log offset `tail` on.

    placed         number of units built
    created        the missing files that were created, by file start
    first_address  the smallest byte address that a unit was placed at, None without any
    addresses      extension addresses for the built units of a queue with extension files
    """

    queue: ConsumeQueue
    stretches: list[Stretch] = field(default_factory=list)
    tail: int | None = None
    placed: int = 0
    created: dict[int, MappedFile] = field(default_factory=dict)
    first_address: int | None = None
    addresses: ExtensionAddresses | None = None

    @classmethod
    def of(cls, queue: ConsumeQueue, log: Stretch, trusted: int) -> Repair:
        """Plan a recovered queue's repair; dispatch has filled all queues up to log offset `trusted`."""
        repair = cls(queue, lost_stretches(queue, log))
        at_end = repair.stretches and repair.stretches[-1].stop == log.stop
        tail = repair.stretches.pop().start if at_end else max(trusted, queue.max_physic_offset)
        repair.tail = tail if tail < log.stop else None
        return repair

    @property
    def first_queue_offset(self) -> int:
        """The smallest queue offset of a placed unit, 0 without any."""
        return (self.first_address or 0) // UNIT_SIZE

    @property
    def start(self) -> int | None:
        """The log offset of the first record needed, None if none is."""
        starts = [stretch.start for stretch in self.stretches] + ([self.tail] if self.tail is not None else [])
        return min(starts, default=None)


class QueueBuilder:
    """Builds missing units of queues from the log; the queues' files are in an overlay.

    extends  give built units of a queue with extension files an extension address; else they hold their tags code
    """

    def __init__(
        self,
        queues: ConsumeQueueStore,
        segments: Iterable[Segment],
        log: Stretch,
        rules: ScanRules,
        *,
        extends: bool = False,
    ) -> None:
        self._queues = queues
        self._extends = extends
        self._segments = list(segments)
        self._log = log
        self._rules = rules
        self.met: defaultdict[str, set[int]] = defaultdict(set)
        """By topic, the queues with records in the part of the log that was read."""
        self.met_from = log.stop
        """The log offset from which on `met` has every queue."""
        self.damages: dict[int, Damage] = {}
        """Damage that was skipped there, by log offset: messages may have been in it."""

    def repair(
        self,
        repairs: dict[QueueKey, Repair],
        meet: Callable[[QueueKey], Repair | None] = lambda key: None,
        *,
        start: int | None = None,
        has_light: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Read the log once, do the repairs, and return the number of units built.

        meet       returns a repair, or None, for a queue of the log that has none in `repairs`; called once a queue
        start      log offset to read from even if no repair needs it
        has_light  build queues that share records even if `repairs` has none and enableMultiDispatch is off
        """
        starts = [at for repair in repairs.values() if (at := repair.start) is not None]
        begin = min([*starts, *([start] if start is not None else [])], default=self._log.stop)
        if begin >= self._log.stop:
            return 0
        plan = _Plan(repairs, meet, self.met)
        has_light = has_light or any(shares_records(topic) for topic, _ in repairs)
        table, is_met, is_wanted = QueueTable(), np.zeros(0, bool), np.zeros(0, bool)
        for step in readable_behind(self._segments, begin, rules=self._rules):
            if not isinstance(step, Run):
                at = step.file_start + step.position
                if isinstance(step, Damage) and at < self._log.stop:
                    self.damages[at] = step
                continue
            if step.start >= self._log.stop:
                break
            numbers = table.assign(step.buffer, step.array, step.count)
            inside = np.flatnonzero((numbers >= 0) & (step.columns.position + step.file_start < self._log.stop))
            # Most of 100,000 queues need no repair.
            is_met, is_wanted = (np.pad(marks, (0, len(table) - len(marks))) for marks in (is_met, is_wanted))
            for number in distinct(numbers[inside[~is_met[numbers[inside]]]]).tolist():
                is_met[number], is_wanted[number] = True, plan.of(table.names[number]) is not None
            for number, rows in _by_queue(numbers, inside[is_wanted[numbers[inside]]], len(table)):
                self._take(plan.of(table.names[number]), step, rows)
            for key, run, _ in self._queues.light_parts(step, inside, always=has_light):
                self._take(plan.of(key), run, np.arange(run.count))
            if progress is not None:
                progress(step.end - begin, self._log.stop - begin)
        self.met_from = min(self.met_from, begin)
        done = {id(repair): repair for repair in [*repairs.values(), *plan.met()]}
        for repair in done.values():
            _finish(repair)
        return sum(repair.placed for repair in done.values())

    def newest_records(self, start: int) -> dict[QueueKey, int]:
        """Return the log offset of the newest record of each queue with records at or after `start`."""
        table, found = QueueTable(), np.full(0, -1, np.int64)
        newest: dict[QueueKey, int] = {}
        for step in readable_behind(self._segments, start, rules=self._rules) if start < self._log.stop else ():
            if not isinstance(step, Run) or step.start >= self._log.stop:
                continue
            numbers, at = table.assign(step.buffer, step.array, step.count), step.columns.position + step.file_start
            inside = np.flatnonzero((numbers >= 0) & (at < self._log.stop))
            found = np.concatenate([found, np.full(len(table) - len(found), -1, np.int64)])
            # Rows are in log order, and the last assignment of a queue remains.
            found[numbers[inside]] = at[inside]
            for key, run, _ in self._queues.light_parts(step, inside, always=True):
                newest[key] = int(run.columns.position[run.count - 1]) + run.file_start
        for key, log_offset in zip(table.names, found.tolist(), strict=True):
            # Two damaged topics may decode to one name.
            newest[key] = max(newest.get(key, -1), log_offset)
        for topic, queue_id in newest:
            if is_topic_folder_name(topic):
                self.met[topic].add(queue_id)
        self.met_from = min(self.met_from, start)
        return newest

    def _take(self, repair: Repair | None, run: Run, rows: Int64Array) -> None:
        """Place or append the units of the records `rows`, all of one queue."""
        if repair is None:
            return
        if repair.addresses is None and self._extends and repair.queue.ext is not None:
            repair.addresses = ExtensionAddresses(self._queues, repair.queue)
        at = run.columns.position[rows] + run.file_start
        for stretch in repair.stretches:
            part = self._part(run, rows[(at >= stretch.start) & (at < stretch.stop)])
            if repair.addresses is not None:
                repair.addresses.find(part)
            _place(repair, part)
        if repair.tail is not None:
            part = self._part(run, rows[at >= repair.tail])
            if part.run.count:
                if repair.addresses is not None:
                    repair.addresses.append(part)
                # A new queue begins at its first record's queue offset: earlier records have expired.
                before = repair.queue.max_offset or int(part.run.columns.queue_offset[0])
                self._queues.append(repair.queue, part.run, np.arange(part.run.count), part.codes)
                repair.placed += repair.queue.max_offset - before

    def _part(self, run: Run, rows: Int64Array) -> _Part:
        """Return the chosen records as a run of their own, with their tags codes."""
        array = np.ascontiguousarray(run.array[:, rows])
        part = Run(run.file_start, run.path, run.buffer, array, len(rows))
        return _Part(part, self._queues.tags_codes(part))


class ExtensionAddresses:
    """Puts extension addresses into the tags codes of built units, as a broker's dispatch does.

    Units of a lost file between others find their old extension units: no other unit references these. Units at a
    queue's end get new extension units. These have bit maps of today's filters if those are known; the log does not
    hold the old bit maps.
    """

    def __init__(self, queues: ConsumeQueueStore, queue: ConsumeQueue) -> None:
        assert queue.ext is not None
        self._queues, self._queue, self._ext = queues, queue, queue.ext
        self._unnamed: dict[tuple[int, int], deque[int]] | None = None

    def append(self, part: _Part) -> None:
        rows = np.arange(part.run.count)
        part.codes[:] = self._queues.put_extensions(self._queue, self._ext, part.run, rows, part.codes)

    def find(self, part: _Part) -> None:
        if self._unnamed is None:
            self._unnamed = self._find_unnamed()
        for row, time_ms in enumerate(part.run.columns.store_timestamp_ms.tolist()):
            positions = self._unnamed.get((int(part.codes[row]), time_ms))
            if positions:
                part.codes[row] = encode_ext_address(positions.popleft())

    def _find_unnamed(self) -> dict[tuple[int, int], deque[int]]:
        """Return the positions of unreferenced extension units, by tags code and store time."""
        named = {position for file in self._queue.files.files for position in extension_positions(file).tolist()}
        found: dict[tuple[int, int], deque[int]] = {}
        for position, unit in self._ext.units():
            if position not in named:
                found.setdefault((unit.tags_code, unit.store_timestamp_ms), deque()).append(position)
        return found


class _Plan:
    """The repairs by queue; `meet` makes those of other queues when the log shows them."""

    def __init__(
        self,
        repairs: dict[QueueKey, Repair],
        meet: Callable[[QueueKey], Repair | None],
        seen: defaultdict[str, set[int]],
    ) -> None:
        self._repairs: dict[QueueKey, Repair | None] = {**repairs}
        self._meet = meet
        self._seen = seen

    def of(self, key: QueueKey) -> Repair | None:
        has_folder = is_topic_folder_name(key[0])
        if key not in self._repairs:
            self._repairs[key] = self._meet(key) if has_folder else None
        if has_folder:
            self._seen[key[0]].add(key[1])
        return self._repairs[key]

    def met(self) -> list[Repair]:
        return [repair for repair in self._repairs.values() if repair is not None]


class _Part(NamedTuple):
    run: Run
    codes: Int64Array


def _by_queue(numbers: Int64Array, rows: Int64Array, queue_count: int) -> Iterator[tuple[int, Int64Array]]:
    """Yield each queue's number with its part of `rows`, in log order."""
    order, starts = np.empty(len(rows), np.int64), np.empty(queue_count + 1, np.int64)
    kernels.order_by_queue(numbers[rows], len(rows), queue_count, order, starts)
    for number in np.flatnonzero(starts[1:] > starts[:-1]).tolist():
        yield number, rows[order[starts[number] : starts[number + 1]]]


def _place(repair: Repair, part: _Part) -> None:
    """Write units at their queue offsets, in files that were missing."""
    files, columns = repair.queue.files, part.run.columns
    assert isinstance(files, OverlayFileQueue)
    addresses = columns.queue_offset * UNIT_SIZE
    starts = addresses // files.file_size * files.file_size
    for file_start in distinct(starts).tolist():
        file = repair.created.get(file_start)
        if file is None:
            if file_start < 0 or any(one.file_start == file_start for one in files.files):
                continue
            file = repair.created[file_start] = files.create_missing(file_start)
            file.reserve(file.size)
            file.set_positions(file.size)
        rows = np.flatnonzero(starts == file_start)
        units, places = unit_array(file), (addresses[rows] - file_start) // UNIT_SIZE
        units["log_offset"][places] = columns.log_offset[rows]
        units["size"][places] = columns.size[rows]
        units["tags_code"][places] = part.codes[rows]
        repair.placed += len(rows)
        first = int(addresses[rows].min())
        repair.first_address = first if repair.first_address is None else min(first, repair.first_address)


def _finish(repair: Repair) -> None:
    """Fill a created first file up to its first unit with pre-blank units, as dispatch does."""
    files = repair.queue.files
    first = files.first
    if first is None or first.file_start not in repair.created or repair.first_address is None:
        return
    count = (repair.first_address - first.file_start) // UNIT_SIZE
    first.write_buffer[: count * UNIT_SIZE] = PRE_BLANK.encode() * count
