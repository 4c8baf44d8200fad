"""ConsumeQueueStore: the consume queues of a store, built from the log.

The first message of a queue creates it. `dispatch` takes the runs of the scan in log order. It skips a record that has
a unit, so dispatching the same stretch twice changes nothing.

Source: CommitLogDispatcherBuildConsumeQueue (4.9.8).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from store import kernels
from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.files.overlay import Overlay
from store.formats.java import decode_utf8
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array, Run
from store.layout import StoreLayout, is_topic_folder_name
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.consume_queue_ext import ConsumeQueueExt
from store.structures.consumequeue.lost_ends import may_continue_at
from store.structures.consumequeue.multi_dispatch import LightPart, find_light_parts, has_light_files
from store.structures.consumequeue.numbering import QueueTable
from store.structures.consumequeue.other_queues import NO_OTHERS, OtherQueues
from store.structures.consumequeue.out_of_order import OutOfOrder
from store.structures.consumequeue.queue_set import QueueKey, QueueSet
from store.structures.consumequeue.torn_units import rewrite_torn_units
from store.structures.consumequeue.unit_array import LAST_ADDRESS

BitMapMaker = Callable[[Run, Sequence[int], str], Sequence[bytes] | None]
"""Returns the bit map of each of these rows, all of one topic; None if none has a bit map."""


class _Stretch(NamedTuple):
    """A queue's new records in a run: indexes first … stop - 1 of the run's order by queue."""

    queue: ConsumeQueue
    first: int
    stop: int


class ConsumeQueueStore(QueueSet):
    """All queues of a store, built from the log by `dispatch`."""

    def __init__(
        self,
        layout: StoreLayout,
        config: StoreConfig,
        fs: Filesystem,
        *,
        writable: bool,
        overlay: Overlay | None = None,
        others: OtherQueues = NO_OTHERS,
    ) -> None:
        super().__init__(layout, config, fs, writable=writable, overlay=overlay, others=others)
        self.findings: list[OutOfOrder] = []
        """Messages found out of order while building; the newest 100."""
        self.light_faults: list[int] = []
        """Log offsets of records with light queue offsets that are no numbers; the newest 100."""
        self.last_store_timestamp_ms = 0
        """Store time of the last message put into a queue."""
        self.last_record = 0
        """The log offset of the last record with a unit."""
        self.on_stored: Callable[[int], None] = lambda store_timestamp_ms: None
        """Called with `last_store_timestamp_ms` after each run; a live store updates its checkpoint with it."""
        self.bit_maps: BitMapMaker | None = None
        """Computes the bit maps of extension units; without it the units have no bit map."""
        self.unusable_topics: list[str] = []
        """Topics of damaged records that are no folder names; their records get no units."""
        self.wants: Callable[[QueueKey], bool] = lambda key: True
        """Selects the queues that `dispatch` appends to, light queues too; a rebuild of one queue skips the others."""
        self.rewrites_torn_units = False
        """Whether `dispatch` rewrites units that contradict their records; a broker keeps such units."""
        self.rewritten_units = 0
        self.finds_light = False
        """Whether records decide on light queues, whatever enableMultiDispatch is: no file tells their broker's."""
        self._table = QueueTable()
        self._numbered: list[QueueKey | None] = []
        self._met: set[QueueKey] = set()
        self._second_numbers: set[int] = set()
        """Second numbers of a queue: topics of damaged records may differ in bytes and decode to one name."""
        self._delay_levels_ms = np.array(config.delay_levels_ms, np.int64)

    @contextlib.contextmanager
    def without_delay_levels(self) -> Iterator[None]:
        """Inside the block, write the hash of the tags for delayed messages instead of the deliver time.

        4.9.8 does so during recovery: it loads its delay levels afterwards.
        """
        levels, self._delay_levels_ms = self._delay_levels_ms, np.array([], np.int64)
        try:
            yield
        finally:
            self._delay_levels_ms = levels

    @property
    def delay_levels_ms(self) -> Int64Array:
        """The delay of each level, for the tags codes of delayed messages; level 1 first."""
        return self._delay_levels_ms

    def dispatch(self, run: Run) -> None:
        """Append the units of a run's records to their queues."""
        self.put_units(run, self.tags_codes(run))

    def put_units(self, run: Run, codes: Int64Array) -> None:
        """Append the units of a run's records with these tags codes."""
        count = run.count
        numbers = self._table.assign(run.buffer, run.array, count)
        self._meet_queues()
        queue_count = len(self._numbered)
        order, starts = np.empty(count, np.int64), np.empty(queue_count + 1, np.int64)
        kernels.order_by_queue(numbers, count, queue_count, order, starts)
        if self.rewrites_torn_units:
            self.rewritten_units += self._rewrite_torn_units(run, order, starts, codes)
        self._append_new(run, order, starts, codes)
        queued = np.flatnonzero(numbers >= 0)
        if len(queued):
            self.last_store_timestamp_ms = int(run.columns.store_timestamp_ms[queued[-1]])
            self.last_record = int(run.columns.log_offset[queued[-1]])
            self.on_stored(self.last_store_timestamp_ms)
        for key, part, named in self.light_parts(run, queued):
            queue = self.find_or_create(*key)
            self.append(queue, part, _new_rows(part, queue.max_physic_offset), codes[named])

    def _rewrite_torn_units(self, run: Run, order: Int64Array, starts: Int64Array, codes: Int64Array) -> int:
        queues: list[ConsumeQueue | None] = [None] * len(self._numbered)
        for number in np.flatnonzero(starts[1:] > starts[:-1]).tolist():
            key = self._numbered[number]
            if key is None:
                continue
            resting = self._resting.get(key)
            if resting and resting.agrees(run, order[starts[number] : starts[number + 1]], codes):
                continue
            queue = self._wake(key)
            if queue is not None and queue.had_units and queue.failure is None:
                queues[number] = queue
        return rewrite_torn_units(queues, run, order, starts, codes)

    def _append_new(self, run: Run, order: Int64Array, starts: Int64Array, codes: Int64Array) -> None:
        """Append the units of the run's records that have none yet, for every queue."""
        present = np.flatnonzero(starts[1:] > starts[:-1])
        keys = [self._numbered[number] for number in present]
        if self._config.enable_consume_queue_ext:
            for number, key in zip(present, keys, strict=True):
                queue = self._queues[key] if key is not None else None
                if queue is not None and queue.ext is not None:
                    rows = order[starts[number] : starts[number + 1]]
                    # The broker appends extension units for repeats too.
                    codes[rows] = self.put_extensions(queue, queue.ext, run, rows, codes)
        ends = np.array([self._end_of(key) for key in keys], np.int64)
        firsts = np.empty(len(present), np.int64)
        kept = kernels.pass_repeats(order, starts, present, len(present), run.array, ends, firsts)
        following, others = list[_Stretch](), list[_Stretch]()
        for number, first in zip(present[:kept].tolist(), firsts[:kept].tolist(), strict=True):
            key, stop = self._numbered[number], int(starts[number + 1])
            queue = self._wake(key) if key is not None else None
            if queue is None or queue.failure is not None:
                continue
            is_other = queue.holds_batches or number in self._second_numbers
            (others if is_other else following).append(_Stretch(queue, first, stop))
        self._append_following(following, run, order, codes)
        for queue, first, stop in others:
            self.append(queue, run, order[first:stop], codes)

    def _append_following(self, stretches: list[_Stretch], run: Run, order: Int64Array, codes: Int64Array) -> None:
        """Append units of many queues: consecutive ones in one call, the others one by one."""
        firsts, stops, next_offsets, ends, breaks = (np.empty(len(stretches), np.int64) for _ in range(5))
        firsts[:] = [stretch.first for stretch in stretches]
        stops[:] = [stretch.stop for stretch in stretches]
        next_offsets[:] = [stretch.queue.next_offset for stretch in stretches]
        ends[:] = [stretch.queue.max_physic_offset for stretch in stretches]
        units = np.empty(len(order) * UNIT_SIZE, np.uint8).data
        kernels.write_following_units(
            order, firsts, stops, len(stretches), run.array, codes, next_offsets, ends, units, breaks
        )
        for (queue, first, stop), end in zip(stretches, breaks.tolist(), strict=True):
            queue.append_encoded(units[first * UNIT_SIZE : end * UNIT_SIZE])
            if end < stop:
                self.append(queue, run, order[end:stop], codes)

    def put_extensions(
        self, queue: ConsumeQueue, ext: ConsumeQueueExt, run: Run, rows: Int64Array, codes: Int64Array
    ) -> Int64Array:
        """Append extension units for the rows, with bit maps if `bit_maps` is set.

        Return the addresses as tags codes.
        """
        times = run.columns.store_timestamp_ms[rows]
        bit_maps = self.bit_maps(run, rows.tolist(), queue.topic) if self.bit_maps is not None else None
        if bit_maps is None:
            return ext.put_run(codes[rows], times)
        return ext.put_with_bit_maps(codes[rows], times, bit_maps)

    def _end_of(self, key: QueueKey | None) -> int:
        """Return the log offset after the queue's last record with a unit; without a queue LAST_ADDRESS."""
        if key is None:
            return LAST_ADDRESS
        resting = self._resting.get(key)
        return resting.end if resting is not None else self._queues[key].max_physic_offset

    def tags_codes(self, run: Run) -> Int64Array:
        """Return the tags codes of a run's records, for their units."""
        codes = np.empty(run.count, np.int64)
        kernels.tags_codes(run.buffer, run.array, run.count, self._delay_levels_ms, codes)
        return codes

    def append(self, queue: ConsumeQueue, run: Run, rows: Int64Array, codes: Int64Array) -> None:
        """Append units of one queue, and note the shifted messages in `findings`."""
        for finding in queue.append_records(run, rows, codes):
            self._add_finding(finding)

    def _add_finding(self, finding: OutOfOrder) -> None:
        """Note the finding, or extend the earlier finding that it continues."""
        for index in range(len(self.findings) - 1, -1, -1):
            joined = self.findings[index].joined(finding)
            if joined is not None:
                self.findings[index] = joined
                return
        self.findings = [*self.findings[-99:], finding]

    def continue_at(self, key: QueueKey, queue_offset: int, log_start: int) -> bool:
        """Let a plain queue without files begin at `queue_offset`; return whether it did.

        Its last entry has the log offset before the log's start, as of an expired message. A broker takes a last
        pre-blank entry for a message, and dispatches none before log offset 2147483647.
        """
        if not may_continue_at(key, queue_offset, log_start, self._others) or self.is_resting(key):
            return False
        queue = self.find_or_create(*key)
        if queue.failure is not None or queue.files.files:
            return False
        queue.put(log_start - 1, 1, 0, queue_offset - 1)
        return True

    def _meet_queues(self) -> None:
        """Note the keys of newly numbered queues; None for a queue that gets no units."""
        for topic_bytes, queue_id in self._table.queues[len(self._numbered) :]:
            topic = decode_utf8(topic_bytes)
            key = topic, queue_id
            if key in self._met:
                self._second_numbers.add(len(self._numbered))
            self._met.add(key)
            if not self.wants(key):
                self._numbered.append(None)
            elif is_topic_folder_name(topic):
                is_usable = key in self._resting or self.find_or_create(*key).failure is None
                self._numbered.append(key if is_usable else None)
            else:
                self._numbered.append(None)
                self.unusable_topics.append(topic)

    def light_parts(self, run: Run, rows: Int64Array, *, always: bool = False) -> list[LightPart]:
        """Return the parts of these records in files of light queues; empty if the settings give none.

        always  ignores the settings, as `finds_light` does: the record's properties list the light queues that its
                broker wrote to
        """
        always = always or self.finds_light
        if not has_light_files(self._config) and not always:
            return []
        parts, faults, _ = find_light_parts(run, rows, None if always else self._config)
        self.light_faults = [*self.light_faults, *faults][-100:]
        return [part for part in parts if self.wants(part.key)]

    def describe_findings(self) -> list[str]:
        """Describe the faults found while building, as sentences for people."""
        shifted = [finding.describe() for finding in self.findings]
        unusable = [
            f"topic {topic!r} is no name of a folder: its messages get no queue entries"
            for topic in self.unusable_topics
        ]
        no_numbers = "has queue offsets that are no numbers: no entries in light queues"
        return shifted + unusable + [f"the record at log offset {at} {no_numbers}" for at in self.light_faults]


def _new_rows(run: Run, max_physic_offset: int) -> Int64Array:
    """Return the rows of one queue's run, without the leading records that have a unit."""
    order, first = np.arange(run.count), np.zeros(1, np.int64)
    ends, starts = np.array([max_physic_offset], np.int64), np.array([0, run.count], np.int64)
    kept = kernels.pass_repeats(order, starts, np.zeros(1, np.int64), 1, run.array, ends, first)
    return order[first.item() :] if kept else order[:0]
