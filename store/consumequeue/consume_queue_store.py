"""ConsumeQueueStore: all consume queues of a store, and their building from the log.

    consumequeue/<topic>/<queue id>/<20 digits>

A queue is created by its first message. `dispatch` takes the runs of the walk in log order; a record that already has
its unit is passed over, so that dispatching the same stretch twice changes nothing.

Small queues rest (store.consumequeue.resting) until they are asked for or written to. Nothing that is done to all
queues after a restart changes one that rests: it has no unit behind the cut, and its beginning is found when it wakes.

Source: DefaultMessageStore.loadConsumeQueue, CommitLogDispatcherBuildConsumeQueue (4.9.8).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from store import kernels
from store.config import LINE_4_9, BrokerLine, StoreConfig
from store.consumequeue.consume_queue import LAST_ADDRESS, ConsumeQueue, OutOfOrder
from store.consumequeue.consume_queue_ext import ConsumeQueueExt
from store.consumequeue.light_queues import LightPart, find_light_parts
from store.consumequeue.numbering import QueueTable
from store.consumequeue.resting import RestingQueue, read_resting
from store.consumequeue.torn_units import rewrite_torn_units
from store.disk.filesystem import MOVE_IT_OUT, Entry, Filesystem
from store.disk.mapped_file_queue import MappedFileQueue
from store.disk.overlay import Overlay, OverlayFileQueue, StagedFile
from store.errors import ForeignFile, StoreError, StoreIOError, WrongFileSize
from store.formats.java import decode_utf8
from store.formats.run import Int64Array, Run
from store.layout import StoreLayout, is_topic_folder_name, parse_queue_id

QueueKey = tuple[str, int]
Refuse = Callable[[StoreError], None]


BitMapMaker = Callable[[Run, Sequence[int], str], Sequence[bytes] | None]
"""The bit map of each row of a run, whose records are of one topic; None where none of them has one."""


class _QueueEntry(NamedTuple):
    """A name in a topic's folder that is a queue id."""

    queue_id: int
    name: str
    is_link: bool


class ConsumeQueueStore:
    """The queues by (topic, queue id). With an `overlay` nothing under the store's folder is written."""

    def __init__(
        self,
        layout: StoreLayout,
        config: StoreConfig,
        fs: Filesystem,
        *,
        writable: bool,
        overlay: Overlay | None = None,
        batch_topics: frozenset[str] = frozenset(),
    ) -> None:
        self.findings: list[OutOfOrder] = []
        """Queues found shifted while building; the newest 100."""
        self.light_faults: list[int] = []
        """Log offsets of records whose queue offsets for light queues are no numbers; the newest 100."""
        self.last_store_timestamp_ms = 0
        """Store time of the last message put into a queue."""
        self._layout = layout
        self._config = config
        self._fs = fs
        self._writable = writable
        self._overlay = overlay
        self._batch_topics = batch_topics
        self.on_stored: Callable[[int], None] = lambda store_timestamp_ms: None
        """Called with that time after each run: the checkpoint of a live store follows it."""
        self.bit_maps: BitMapMaker | None = None
        """Gives the bit maps of extension units; without it they have none."""
        self.unusable_topics: list[str] = []
        """Topics of damaged records, which no folder can be named after; their records get no units."""
        self.rewrites_torn_units = False
        """Whether `dispatch` rewrites units that contradict their records; a broker does not."""
        self.rewritten_units = 0
        self._queues: dict[QueueKey, ConsumeQueue] = {}
        self._resting: dict[QueueKey, RestingQueue] = {}
        self._wake_lock = threading.RLock()
        self._line = LINE_4_9
        self._refuse: Refuse | None = None
        self._is_recovered = False
        self._log_start: int | None = None
        self._table = QueueTable()
        self._numbered: list[QueueKey | None] = []
        self._delay_levels_ms = np.array(config.delay_levels_ms, np.int64)

    @contextlib.contextmanager
    def without_delay_levels(self) -> Iterator[None]:
        """Inside the block delayed messages get the hash of their tags instead of their deliver time.

        4.9.8 recovers before it knows its delay levels, so that is what it writes then.
        """
        levels, self._delay_levels_ms = self._delay_levels_ms, np.array([], np.int64)
        try:
            yield
        finally:
            self._delay_levels_ms = levels

    def load(
        self,
        line: BrokerLine = LINE_4_9,
        refuse: Refuse | None = None,
        known: Mapping[QueueKey, RestingQueue] | None = None,
    ) -> None:
        """Opens every queue on disk; raises as a broker would refuse to start.

        refuse  is called with the error of a file or folder, which is then left out
        known   resting queues that were read before, and have not changed since
        """
        self._line, self._refuse = line, refuse
        known = known or {}
        for folder, entries in self._queue_folders(line, self._leave_out):
            is_link = self._writable and self._fs.is_link(folder)
            may_rest = self._may_rest(folder)
            for queue_id, name, name_is_link in entries:
                if self._writable and (is_link or name_is_link):
                    # Files written and deleted in it may belong to another program.
                    raise ForeignFile(
                        "a link, where a queue's folder is expected", file=folder / name, hint=MOVE_IT_OUT
                    )
                key, resting = (folder.name, queue_id), None
                if may_rest and name == str(queue_id):
                    resting = known.get(key) or self._read_resting(f"{folder}/{name}")
                if resting is not None:
                    self._resting[key] = resting
                else:
                    self._load_folder(key, folder / name)

    def refused_by(self, line: BrokerLine) -> list[StoreError]:
        """Finds files and folders among the loaded queues that keep a broker of the line from starting."""
        found: list[StoreError] = []
        for folder, entries in self._queue_folders(line, found.append):
            for queue_id, name, _ in entries:
                key = folder.name, queue_id
                if key not in self._resting and self._fs.is_folder(folder / name):
                    self._new_queue(*key).files.load(line, found.append)
        return found

    def _queue_folders(self, line: BrokerLine, refuse: Refuse) -> Iterator[tuple[Path, list[_QueueEntry]]]:
        """The topics' folders, each with the queues in it, as a broker of the line lists them."""
        parents = [self._layout.consumequeue] + ([self._layout.batchconsumequeue] if self._batch_topics else [])
        for folder in [parent / topic for parent in parents for topic in self._fs.list_names(parent)]:
            entries = []
            for name, is_link in self._fs.list_names_and_links(folder):
                queue_id = parse_queue_id(name)
                if queue_id is not None:
                    entries.append(_QueueEntry(queue_id, name, is_link))
                elif not line.skips_folders:
                    refuse(ForeignFile("not a queue id", file=folder / name, hint="move it away"))
            yield folder, entries

    def _may_rest(self, topic_folder: Path) -> bool:
        """Whether the queues of a topic may rest: plain ones without extension files."""
        is_plain = topic_folder.name not in self._batch_topics and topic_folder.parent == self._layout.consumequeue
        return is_plain and not self._config.enable_consume_queue_ext

    def _read_resting(self, folder: str) -> RestingQueue | None:
        return read_resting(folder, self._config.mapped_file_size_consume_queue, self._fs)

    def _load_folder(self, key: QueueKey, folder: Path) -> None:
        found = self._fs.look_at(folder)
        if found is not None and not found.is_folder:
            self._leave_out(ForeignFile("a file, where a queue's folder is expected", file=folder))
            return
        self._queues[key] = self._load(key)

    def _leave_out(self, error: StoreError) -> None:
        if self._refuse is None:
            raise error
        self._refuse(error)

    def _load(self, key: QueueKey) -> ConsumeQueue:
        queue = self._new_queue(*key)
        try:
            queue.files.load(self._line, self._refuse)
            if queue.ext is not None:
                queue.ext.files.load(self._line, self._refuse)
        except WrongFileSize as error:
            error.code, error.subject = "queue-file-size", key
            raise
        return queue

    def _wake(self, key: QueueKey) -> ConsumeQueue | None:
        """The queue, opened if it was resting; None without one."""
        queue = self._queues.get(key)
        if queue is not None or key not in self._resting:
            return queue
        with self._wake_lock:
            if key in self._resting:
                queue = self._load(key)
                if self._is_recovered:
                    self._recover(queue)
                if self._log_start is not None and queue.failure is None:
                    queue.correct_min_offset(self._log_start)
                self._queues[key] = queue
                del self._resting[key]
            return self._queues[key]

    # Looking.

    def __iter__(self) -> Iterator[ConsumeQueue]:
        """The queues that can be read, by topic and queue id; wakes all of them."""
        for key in list(self._resting):
            self._wake(key)
        return iter(sorted(self.awake(), key=lambda queue: (queue.topic, queue.queue_id)))

    def __len__(self) -> int:
        return len(self._queues) + len(self._resting)

    def __contains__(self, key: QueueKey) -> bool:
        return key in self._queues or key in self._resting

    def names(self) -> list[QueueKey]:
        """Topic and queue id of every queue."""
        return [*self._queues, *self._resting]

    def awake(self) -> list[ConsumeQueue]:
        """The queues that can be read and do not rest."""
        return [queue for queue in list(self._queues.values()) if queue.failure is None]

    def resting(self) -> dict[QueueKey, RestingQueue]:
        """The queues that rest, as they are on disk."""
        return dict(self._resting)

    def is_resting(self, key: QueueKey) -> bool:
        return key in self._resting

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """The queues of a topic that can be read."""
        for key in [key for key in self._resting if key[0] == topic]:
            self._wake(key)
        return [queue for queue in self.awake() if queue.topic == topic]

    def reaching(self, log_offset: int) -> list[ConsumeQueue]:
        """The queues that can be read and may have a unit that points at or behind `log_offset`."""
        for key in [key for key, resting in self._resting.items() if resting.max_log_offset >= log_offset]:
            self._wake(key)
        return self.awake()

    def next_offsets(self) -> Iterator[tuple[QueueKey, int]]:
        """For every recovered queue that can be read the queue offset that its next message gets."""
        yield from ((key, resting.unit_count) for key, resting in self._resting.items())
        yield from (((queue.topic, queue.queue_id), queue.max_offset) for queue in self.awake())

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, None without one; StoreIOError where its files can't be read."""
        queue = self._wake((topic, queue_id))
        if queue is not None and queue.failure is not None:
            raise queue.failure
        return queue

    @property
    def failures(self) -> list[StoreError]:
        """Why queues can't be read."""
        return [queue.failure for queue in self._queues.values() if queue.failure is not None]

    def topics(self) -> list[str]:
        """The topics that have queues."""
        return sorted({topic for topic, _ in self.names()})

    def queue_ids(self, topic: str) -> list[int]:
        """The ids of a topic's queues."""
        return sorted(key[1] for key in self.names() if key[0] == topic)

    def find_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        queue = self._wake((topic, queue_id))
        if queue is None:
            queue = self._queues[topic, queue_id] = self._new_queue(topic, queue_id)
            if queue.ext is not None:
                queue.ext.begin_anew()
        return queue

    @property
    def max_physic_offset(self) -> int:
        """The log offset that the building of the queues has reached: the greatest of all, -1 without any."""
        ends = [queue.max_physic_offset for queue in self._queues.values()]
        if self._is_recovered:
            ends += [resting.end for resting in self._resting.values()]
        return max(ends, default=-1)

    @property
    def built_to(self) -> int:
        """Log offset behind the newest record that has a unit, -1 without any.

        The queues have been recovered. It is `max_physic_offset` but for batch queues, which a broker counts by the
        start of their newest record.
        """
        return max(self.max_physic_offset, *(queue.built_to for queue in self._queues.values()), -1)

    def describe_findings(self) -> list[str]:
        """Describes the faults found while building, as sentences for people."""
        shifted = [finding.describe() for finding in self.findings]
        unusable = [f"topic {topic!r} names no folder: its messages get no units" for topic in self.unusable_topics]
        no_numbers = "has queue offsets that are no numbers: no units in light queues"
        return shifted + unusable + [f"the record at log offset {at} {no_numbers}" for at in self.light_faults]

    # After a restart.

    def recover(self) -> int:
        """Finds every queue's end; gives max_physic_offset.

        A queue that can't be read is left out from here on.
        """
        for queue in self.awake():
            self._recover(queue)
        self._is_recovered = True
        return self.max_physic_offset

    def _recover(self, queue: ConsumeQueue) -> None:
        try:
            queue.recover()
        except StoreIOError as error:
            error.hint = "rebuild the queue from the log"
            queue.failure = error

    def truncate_dirty(self, log_offset: int) -> None:
        """Cuts every queue back to records before `log_offset`."""
        for queue in self.reaching(log_offset):
            queue.truncate_dirty_logic_files(log_offset)

    def clear_cut_units(self) -> int:
        """Zeroes the units that a truncation left behind; gives the number of queues that had any."""
        return sum(queue.clear_cut_units() for queue in self.awake())

    def correct_min_offsets(self, min_log_offset: int) -> None:
        self._log_start = min_log_offset
        for queue in self.awake():
            queue.correct_min_offset(min_log_offset)

    def destroy(self) -> None:
        """Deletes every queue file, as a broker does when the commit log is empty."""
        for queue in self:
            queue.destroy()

    # Building.

    def dispatch(self, run: Run) -> None:
        """Appends the units of a run's records to their queues."""
        count = run.count
        numbers = self._table.assign(run.buffer, run.array, count)
        self._meet_queues()
        queue_count = len(self._numbered)
        codes, order = np.empty(count, np.int64), np.empty(count, np.int64)
        starts = np.empty(queue_count + 1, np.int64)
        kernels.tags_codes(run.buffer, run.array, count, self._delay_levels_ms, codes)
        kernels.order_by_queue(numbers, count, queue_count, order, starts)
        if self.rewrites_torn_units:
            self.rewritten_units += self._rewrite_torn_units(run, order, starts, codes)
        self._append_new(run, order, starts, codes)
        queued = np.flatnonzero(numbers >= 0)
        if len(queued):
            self.last_store_timestamp_ms = int(run.columns.store_timestamp_ms[queued[-1]])
            self.on_stored(self.last_store_timestamp_ms)
        self._dispatch_to_light_queues(run, queued, codes)

    def _rewrite_torn_units(self, run: Run, order: Int64Array, starts: Int64Array, codes: Int64Array) -> int:
        queues: list[ConsumeQueue | None] = [None] * len(self._numbered)
        for number in np.flatnonzero(starts[1:] > starts[:-1]).tolist():
            key = self._numbered[number]
            resting = self._resting.get(key) if key is not None else None
            if key is None or (resting and resting.agrees(run, order[starts[number] : starts[number + 1]], codes)):
                continue
            queue = self._wake(key)
            queues[number] = queue if queue is not None and queue.failure is None else None
        return rewrite_torn_units(queues, run, order, starts, codes)

    def _append_new(self, run: Run, order: Int64Array, starts: Int64Array, codes: Int64Array) -> None:
        """Appends the units of every queue in the run behind those that are there."""
        present = np.flatnonzero(starts[1:] > starts[:-1])
        keys = [self._numbered[number] for number in present]
        if self._config.enable_consume_queue_ext:
            for number, key in zip(present, keys, strict=True):
                queue = self._queues[key] if key is not None else None
                if queue is not None and queue.ext is not None:
                    rows = order[starts[number] : starts[number + 1]]
                    # As the broker does, for repeats too.
                    codes[rows] = self._put_extensions(queue, queue.ext, run, rows, codes)
        ends = np.array([self._end_of(key) for key in keys], np.int64)
        firsts = np.empty(len(present), np.int64)
        kept = kernels.pass_repeats(order, starts, present, len(present), run.array, ends, firsts)
        for number, first in zip(present[:kept].tolist(), firsts[:kept].tolist(), strict=True):
            key = self._numbered[number]
            queue = self._wake(key) if key is not None else None
            if queue is not None and queue.failure is None:
                self.append(queue, run, order[first : starts[number + 1]], codes)

    def _put_extensions(
        self, queue: ConsumeQueue, ext: ConsumeQueueExt, run: Run, rows: Int64Array, codes: Int64Array
    ) -> Int64Array:
        """Append extension units for the rows; gives their addresses as tags codes."""
        times = run.columns.store_timestamp_ms[rows]
        bit_maps = self.bit_maps(run, rows.tolist(), queue.topic) if self.bit_maps is not None else None
        if bit_maps is None:
            return ext.put_run(codes[rows], times)
        return ext.put_with_bit_maps(codes[rows], times, bit_maps)

    def _end_of(self, key: QueueKey | None) -> int:
        """The log offset behind the last record that has a unit in the queue; no queue takes any."""
        if key is None:
            return LAST_ADDRESS
        resting = self._resting.get(key)
        return resting.end if resting is not None else self._queues[key].max_physic_offset

    def tags_codes(self, run: Run) -> Int64Array:
        """The tags codes of a run's records, for their units."""
        codes = np.empty(run.count, np.int64)
        kernels.tags_codes(run.buffer, run.array, run.count, self._delay_levels_ms, codes)
        return codes

    def append(self, queue: ConsumeQueue, run: Run, rows: Int64Array, codes: Int64Array) -> None:
        """Appends units of one queue, and notes those that are shifted."""
        shifted = queue.append_records(run, rows, codes)
        if shifted:
            self.findings = [*self.findings, *shifted][-100:]

    def _meet_queues(self) -> None:
        """Notes the keys of newly numbered queues; None where no folder can have the topic's name."""
        for topic_bytes, queue_id in self._table.queues[len(self._numbered) :]:
            topic = decode_utf8(topic_bytes)
            key = topic, queue_id
            if is_topic_folder_name(topic):
                is_usable = key in self._resting or self.find_or_create(*key).failure is None
                self._numbered.append(key if is_usable else None)
            else:
                self._numbered.append(None)
                self.unusable_topics.append(topic)

    def _dispatch_to_light_queues(self, run: Run, rows: Int64Array, codes: Int64Array) -> None:
        """Appends units to the queues that messages name beside their own."""
        for key, part, named in self.light_parts(run, rows):
            queue = self.find_or_create(*key)
            self.append(queue, part, _new_rows(part, queue.max_physic_offset), codes[named])

    def light_parts(self, run: Run, rows: Int64Array, *, always: bool = False) -> list[LightPart]:
        """The parts of these records in light queues; none where the store is set to have no light queues.

        always  whatever the settings are: a record tells which light queues its broker wrote to
        """
        if not self._config.enable_multi_dispatch and not always:
            return []
        parts, faults = find_light_parts(run, rows, enable_lmq=self._config.enable_lmq or always)
        self.light_faults = [*self.light_faults, *faults][-100:]
        return parts

    # Keeping.

    def close(self) -> None:
        for queue in self.awake():
            queue.close()

    # What an overlay holds.

    def staged_files(self) -> list[StagedFile]:
        return [staged for files in self._overlays() for staged in files.staged_files()]

    def removed_paths(self) -> list[Path]:
        return [path for files in self._overlays() for path in files.removed_paths()]

    def _overlays(self) -> Iterator[OverlayFileQueue]:
        for queue in self.awake():
            for files in (queue.files, queue.ext.files if queue.ext is not None else None):
                if isinstance(files, OverlayFileQueue):
                    yield files

    def queue_folder(self, topic: str, queue_id: int) -> Path:
        """The folder of a queue, by the type of its topic."""
        layout = self._layout
        folder = layout.batch_queue_folder if topic in self._batch_topics else layout.queue_folder
        return folder(topic, queue_id)

    def _topic_folders(self) -> Iterator[Entry]:
        """List the folders of plain queues and of batch queues."""
        yield from self._fs.list_folder(self._layout.consumequeue)
        if self._batch_topics:
            yield from self._fs.list_folder(self._layout.batchconsumequeue)

    def _new_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        if topic in self._batch_topics:
            from store.five.batchqueue.queue import BatchConsumeQueue

            folder, size = self.queue_folder(topic, queue_id), self._config.mapper_file_size_batch_consume_queue
            return BatchConsumeQueue(topic, queue_id, self._files(folder, size))
        files = self._files(self._layout.queue_folder(topic, queue_id), self._config.mapped_file_size_consume_queue)
        if not self._config.enable_consume_queue_ext:
            return ConsumeQueue(topic, queue_id, files)
        size = self._config.mapped_file_size_consume_queue_ext
        ext = ConsumeQueueExt(self._files(self._layout.queue_ext_folder(topic, queue_id), size))
        return ConsumeQueue(topic, queue_id, files, ext)

    def _files(self, folder: Path, file_size: int) -> MappedFileQueue:
        if self._overlay is None:
            return MappedFileQueue(folder, file_size, self._fs, writable=self._writable)
        staged = self._overlay.folder / folder.relative_to(self._layout.root)
        return OverlayFileQueue(folder, file_size, self._fs, self._overlay, staged)


def _new_rows(run: Run, max_physic_offset: int) -> Int64Array:
    """The rows of a run for one queue, without those at the front that have their unit."""
    order, first = np.arange(run.count), np.zeros(1, np.int64)
    ends, starts = np.array([max_physic_offset], np.int64), np.array([0, run.count], np.int64)
    kept = kernels.pass_repeats(order, starts, np.zeros(1, np.int64), 1, run.array, ends, first)
    return order[int(first[0]) :] if kept else order[:0]
