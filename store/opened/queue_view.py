"""QueueView: the consume queues of a store that is only read, each opened at its first use.

A queue is truncated at the log's end, and completed from the log where units are missing: those that dispatch had not
written yet, and those of lost files (store.opened.missing). Built units go to a scratch folder. So the cost grows with
the queues that are read, not with all queues. If all are read, small complete ones stay idle
(store.structures.consumequeue.resting).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from store.broker_line import BrokerLine
from store.config import StoreConfig
from store.errors import StoreError, StoreIOError
from store.files.filesystem import Filesystem
from store.files.overlay import Overlay
from store.formats.run import Stretch
from store.formats.topics import shares_records
from store.formats.wording import amount, amount_is
from store.layout import StoreLayout, parse_queue_id
from store.opened.missing import QueueBuilder, Repair
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.consumequeue.other_queues import NO_OTHERS, OtherQueues
from store.structures.consumequeue.queue_set import QueueKey, QueueState
from store.structures.consumequeue.resting import RestingQueue

NOTED_QUEUES = 8
"""Up to this many completed queues have a note each; more are counted in one note."""
SHORT_LOG_BYTES = 256 << 20
"""A log that is read in less than the time of a command's start."""
WORTH_A_WALK = 500
"""From this many queues on, a scan for the queues that may stay idle costs less than opening all of them."""


class QueueView(ConsumeQueueStore):
    """The queues of a log whose end is known."""

    def __init__(
        self,
        layout: StoreLayout,
        config: StoreConfig,
        fs: Filesystem,
        overlay: Overlay,
        others: OtherQueues = NO_OTHERS,
    ) -> None:
        super().__init__(layout, config, fs, writable=False, overlay=overlay, others=others)
        self._view_lock = threading.RLock()
        self._absent: set[QueueKey] = set()
        self._is_whole = False
        self._has_cut = False

    def show(
        self,
        builder: QueueBuilder,
        log: Stretch,
        line: BrokerLine,
        *,
        trusted: int,
        note: Callable[[str], None],
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Set the log of the queues.

        trusted  the log offset up to which dispatch has filled all queues
        note     is called with a sentence on missing units and left-out files
        """
        self._builder, self._log, self._line, self._trusted = builder, log, line, trusted
        self._note, self._progress = note, progress

    # Looking.

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._wake((topic, queue_id))

    def __iter__(self) -> Iterator[ConsumeQueue]:
        self._look_at_all()
        return super().__iter__()

    def __len__(self) -> int:
        self._look_at_all()
        return super().__len__()

    def states(self) -> Iterator[QueueState]:
        self._look_at_all()
        return super().states()

    def newest_unit(self) -> tuple[int, int] | None:
        self._look_at_all()
        return super().newest_unit()

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        self._look_at_all()
        return super().of_topic(topic)

    def topics(self) -> list[str]:
        """Return the topics with a folder, and those of other queues that have records (_meet)."""
        names = [entry.path.name for entry in self._fs.list_folder(self._layout.consumequeue) if entry.is_folder]
        self._meet(is_known=bool(names))
        return sorted({*names, *self._others.topics, *self._builder.met})

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues that have a folder, and of others that have records (_meet)."""
        names = [entry.path.name for entry in self._fs.list_folder(self.queue_folder(topic, 0).parent)]
        found = {queue_id for name in names if (queue_id := parse_queue_id(name)) is not None}
        self._meet(is_known=bool(found))
        found |= self._builder.met.get(topic, set())
        if self._builder.met_from > self._log.start:
            self._note_missing(topic, found)
        return sorted(found)

    def _note_missing(self, topic: str, found: set[int]) -> None:
        from store.structures.tables.topics import needs_no_entry

        wanted = {queue_id for name, queue_id in self._queues_of_table if name == topic}
        told = "the log was not read for lost ones"
        if not wanted and not needs_no_entry(topic):
            self._note(f"{topic} is not in topics.json, so queues without files are unknown; {told}")
        elif missing := wanted - found:
            count = amount(len(missing), "queue")
            self._note(f"{topic} has no files for {count} of topics.json, the first is {min(missing)}; {told}")

    def _meet(self, *, is_known: bool) -> None:
        """Look for queues without files in the log: past its dispatched part, or in all of a short one.

        A long log is read if not `is_known`, as then all files may be lost.
        """
        is_short = self._log.stop - self._log.start <= SHORT_LOG_BYTES and not self._fs.fetches
        self._meet_from(self._log.start if is_short or not is_known else self._trusted)

    def _meet_from(self, log_offset: int) -> None:
        with self._view_lock:
            if log_offset < self._builder.met_from:
                self._builder.newest_records(log_offset)

    @cached_property
    def _queues_of_table(self) -> set[QueueKey]:
        from store.structures.tables.topics import topic_queues

        return topic_queues(self._layout.config, self._fs)

    def end_on_disk(self, topic: str, queue_id: int) -> int:
        """Return the log offset after the last record with a unit in the queue's files, -1 without units."""
        queue = self._new_queue(topic, queue_id)
        queue.files.load(self._line, refuse=lambda error: None)
        try:
            queue.recover()
        except StoreIOError:
            return -1
        return queue.built_to

    def describe_findings(self) -> list[str]:
        """Describe damage and disorder met in the log while units were built, as sentences for people."""
        damages = [damage for _, damage in sorted(self._builder.damages.items())]
        passed = [f"passed over while queues were built from the log: {one.describe()}" for one in damages]
        return passed + super().describe_findings()

    # Opening.

    def _keys_on_disk(self) -> Iterator[QueueKey]:
        for topic in self._topic_folders():
            for entry in self._fs.list_folder(topic.path) if topic.is_folder else ():
                queue_id = parse_queue_id(entry.path.name)
                if queue_id is not None and entry.is_folder:
                    yield topic.path.name, queue_id

    def _look_at_all(self) -> None:
        """Open every queue on disk or in the log; small ones that lack nothing stay idle."""
        with self._view_lock:
            if self._is_whole:
                return
            known = [key for key in self._keys_on_disk() if key not in self._queues]
            self._resting = self._find_resting(known)
            opened = {key: self._open(key) for key in known if key not in self._resting}
            self._complete(opened, all_queues=True)
            self._is_whole, self._is_recovered, self._log_start = True, True, self._log.start
            if self._has_cut:
                # A broker's recovery truncates every queue once one reaches the log's end.
                for queue in self._queues.values():
                    queue.max_physic_offset = queue.max_physic_offset if queue.max_offset else self._log.stop

    def _find_resting(self, keys: Sequence[QueueKey]) -> dict[QueueKey, RestingQueue]:
        """Return the idle queues among `keys`: they lack no unit, and have none past the log's end."""
        found = {}
        for key in keys:
            topic, _ = key
            resting = self._read_resting(str(self.queue_folder(*key))) if self._may_rest(topic) else None
            # A full one does not rest, as the file after it may be lost. One that reaches the log's end is truncated
            # there, even if it loses nothing: see _has_cut.
            if resting and resting.end < self._log.stop:
                found[key] = resting
        if self._trusted >= self._log.stop:
            return found
        newest = self._builder.newest_records(self._trusted) if len(found) >= WORTH_A_WALK else None
        return {key: one for key, one in found.items() if newest is not None and newest.get(key, 0) < one.end}

    def _wake(self, key: QueueKey) -> ConsumeQueue | None:
        with self._view_lock:
            is_new = key not in self._queues and key not in self._absent
            if is_new and (key in self._resting or not self._is_whole):
                self._resting.pop(key, None)
                is_unmet = self._builder.met_from <= self._log.start and key[1] not in self._builder.met.get(key[0], ())
                if is_unmet and not self._has_files(key):
                    self._absent.add(key)
                else:
                    self._complete({key: self._open(key)})
            return self._queues.get(key)

    def _open(self, key: QueueKey) -> Repair:
        """Open one queue with its units on disk up to the log's end, and the units it may lack."""
        queue = self._new_queue(*key)
        queue.files.load(self._line, refuse=self._leave_out)
        if queue.ext is not None:
            queue.ext.files.load(self._line, refuse=self._leave_out)
        try:
            queue.recover()
        except StoreIOError as error:
            # All of it can be built from the log.
            self._leave_out(error)
            queue = self._new_queue(*key)
        if queue.max_physic_offset >= self._log.stop:
            queue.truncate_dirty_logic_files(self._log.stop)
            self._has_cut = True
        # Built units hold their tags code, as extension files are only read.
        return Repair.of(queue, self._log, self._trusted)

    def _has_files(self, key: QueueKey) -> bool:
        return self._fs.exists(self.queue_folder(*key))

    def _leave_out(self, error: StoreError) -> None:
        self._note(f"left out: {error}")

    def _complete(self, repairs: dict[QueueKey, Repair], *, all_queues: bool = False) -> None:
        """Build the missing units of the queues, and add every queue that has units or a folder."""
        met = dict(repairs)

        def meet(key: QueueKey) -> Repair | None:
            if all_queues and key not in self._queues and key not in self._resting:
                return met.setdefault(key, Repair.of(self._new_queue(*key), self._log, self._trusted))
            return None

        start = self._log.start if all_queues else None
        has_light = any(shares_records(topic) for topic, _ in [*repairs, *self._resting])
        count = self._builder.repair(repairs, meet, start=start, has_light=has_light, progress=self._progress)
        for key, repair in met.items():
            queue = repair.queue
            queue.correct_min_offset(self._log.start)
            if repair.first_address is not None and repair.queue.files.first in repair.created.values():
                queue.begin_at(max(queue.min_offset, repair.first_queue_offset))
            if queue.files.files or queue.max_offset or self._has_files(key):
                self._queues[key] = queue
            else:
                self._absent.add(key)
        self._note_built([repair for repair in met.values() if repair.placed], count)

    def _note_built(self, built: list[Repair], count: int) -> None:
        if self._fs.holds_log_alone:
            # Nothing is lost: its copy has no queues.
            return
        for repair in built if len(built) <= NOTED_QUEUES else ():
            queue = repair.queue
            missing = f"{queue.topic}, queue {queue.queue_id}: {amount_is(repair.placed, 'entry')} missing"
            self._note(f"{missing}, and built from the log")
        if len(built) > NOTED_QUEUES:
            self._note(f"{amount_is(count, 'entry')} missing of {amount(len(built), 'queue')}, and built from the log")
