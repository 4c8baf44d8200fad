"""QueueSet: all consume queues of a store, by topic and queue id.

    consumequeue/<topic>/<queue id>/<20 digits>

Small queues stay idle (resting.py) until they are read or written. Recovery and truncation leave idle queues
unchanged: an idle queue has no unit past the truncation, and its start is found at its first use.

Source: DefaultMessageStore.loadConsumeQueue (4.9.8).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from store.broker_line import LINE_4_9, BrokerLine
from store.config import StoreConfig
from store.errors import ForeignFile, StoreError, StoreIOError, WrongFileSize
from store.files.filesystem import MOVE_IT_OUT, Entry, Filesystem
from store.files.mapped_file_queue import MappedFileQueue
from store.files.overlay import Overlay, OverlayFileQueue, StagedFile
from store.files.segment_folders import UnsyncedFolders
from store.layout import StoreLayout, parse_queue_id
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.consume_queue_ext import ConsumeQueueExt
from store.structures.consumequeue.other_queues import NO_OTHERS, OtherQueues
from store.structures.consumequeue.resting import RestingQueue, read_resting

QueueKey = tuple[str, int]
Refuse = Callable[[StoreError], None]


class QueueState(NamedTuple):
    """One consume queue: its first and next queue offset, and `max_physic_offset`."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    max_physic_offset: int


class _QueueEntry(NamedTuple):
    """A name in a topic's folder that is a queue id."""

    queue_id: int
    name: str
    is_link: bool


class QueueSet:
    """The queues by (topic, queue id). With an `overlay` nothing under the store's folder is written."""

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
        self._layout = layout
        self._config = config
        self._fs = fs
        self._writable = writable
        self._overlay = overlay
        self._others = others
        self._queues: dict[QueueKey, ConsumeQueue] = {}
        self._resting: dict[QueueKey, RestingQueue] = {}
        self._wake_lock = threading.RLock()
        self._staged_numbers = itertools.count(1)
        self._unsynced_folders = UnsyncedFolders()
        self._line = LINE_4_9
        self._refuse: Refuse | None = None
        self._is_recovered = False
        self._log_start: int | None = None

    def load(
        self,
        line: BrokerLine = LINE_4_9,
        refuse: Refuse | None = None,
        known: Mapping[QueueKey, RestingQueue] | None = None,
    ) -> None:
        """Open every queue on disk; raise an error where a broker would refuse to start.

        refuse  takes the error of a file or folder instead of raising it; the file or folder is left out
        known   idle queues that were read before and have not changed since
        """
        self._line, self._refuse = line, refuse
        known = known or {}
        for folder, entries in self._queue_folders():
            is_link = self._writable and self._fs.is_link(folder)
            may_rest = self._may_rest(folder.name)
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
        """Find files and folders of the loaded queues that keep a broker of this version from starting."""
        found: list[StoreError] = []
        for folder, entries in self._queue_folders():
            for queue_id, name, _ in entries:
                key = folder.name, queue_id
                if key not in self._resting and self._fs.is_folder(folder / name):
                    self._new_queue(*key).files.load(line, found.append)
        return found

    def _queue_folders(self) -> Iterator[tuple[Path, list[_QueueEntry]]]:
        """Yield the topics' folders, each with its queues; a broker ignores other names."""
        parents = self._parents()
        for folder in [parent / topic for parent in parents for topic in self._fs.list_names(parent)]:
            entries = []
            for name, is_link in self._fs.list_names_and_links(folder):
                queue_id = parse_queue_id(name)
                if queue_id is not None:
                    entries.append(_QueueEntry(queue_id, name, is_link))
            yield folder, entries

    def _may_rest(self, topic: str) -> bool:
        """Return whether the queues of a topic may stay idle: plain queues without extension files."""
        return topic not in self._others.topics and not self._config.enable_consume_queue_ext

    def _read_resting(self, folder: str) -> RestingQueue | None:
        return read_resting(folder, self._config.mapped_file_size_consume_queue, self._fs)

    def _load_folder(self, key: QueueKey, folder: Path) -> None:
        found = self._fs.look_at(folder)
        if found is not None and not found.is_folder:
            # A broker starts, and fails at the queue's first message.
            if self._writable:
                self._leave_out(
                    ForeignFile(f"{found.kind}, where a queue's folder is expected", file=folder, hint=MOVE_IT_OUT)
                )
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
        """Return the queue, and open it if it is idle; None without one."""
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
        """Return the readable queues by topic and queue id; opens all idle queues."""
        for key in list(self._resting):
            self._wake(key)
        return iter(sorted(self.awake(), key=lambda queue: (queue.topic, queue.queue_id)))

    def __len__(self) -> int:
        return len(self._queues) + len(self._resting)

    def __contains__(self, key: QueueKey) -> bool:
        return key in self._queues or key in self._resting

    def names(self) -> list[QueueKey]:
        """Return topic and queue id of every queue."""
        return [*self._queues, *self._resting]

    def awake(self) -> list[ConsumeQueue]:
        """Return the readable queues that are not idle."""
        return [queue for queue in list(self._queues.values()) if queue.failure is None]

    def resting(self) -> dict[QueueKey, RestingQueue]:
        """Return the idle queues, as they are on disk."""
        return dict(self._resting)

    def is_resting(self, key: QueueKey) -> bool:
        return key in self._resting

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """Return the readable queues of a topic."""
        for key in [key for key in self._resting if key[0] == topic]:
            self._wake(key)
        return [queue for queue in self.awake() if queue.topic == topic]

    def reaching(self, log_offset: int) -> list[ConsumeQueue]:
        """Return the readable queues, after opening each idle one with a unit at or after `log_offset`."""
        for key in [key for key, resting in self._resting.items() if resting.max_log_offset >= log_offset]:
            self._wake(key)
        return self.awake()

    def states(self) -> Iterator[QueueState]:
        """Yield the state of every readable queue after recovery; opens no idle queue."""
        for (topic, queue_id), resting in self._resting.items():
            first = resting.first_from(self._log_start or 0, self._line)
            yield QueueState(topic, queue_id, first, resting.unit_count, resting.end)
        for queue in self.awake():
            yield QueueState(queue.topic, queue.queue_id, queue.min_offset, queue.max_offset, queue.max_physic_offset)

    def newest_unit(self) -> tuple[int, int] | None:
        """Return log offset and size of the newest record that has a unit; opens no idle queue."""
        last = [resting.last_unit() for resting in self._resting.values()]
        for queue in self.awake():
            unit = queue.unit(queue.max_offset - 1)
            if unit is not None:
                last.append((unit.log_offset, unit.size))
        return max(last, default=None)

    def next_offsets(self) -> Iterator[tuple[QueueKey, int]]:
        """Yield for each readable queue after recovery the queue offset of its next message."""
        yield from ((key, resting.unit_count) for key, resting in self._resting.items())
        yield from (((queue.topic, queue.queue_id), queue.max_offset) for queue in self.awake())

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return the queue, None without one; StoreIOError if its files can't be read."""
        queue = self._wake((topic, queue_id))
        if queue is not None and queue.failure is not None:
            raise queue.failure
        return queue

    @property
    def failures(self) -> list[StoreError]:
        """The errors of unreadable queues."""
        return [queue.failure for queue in self._queues.values() if queue.failure is not None]

    def topics(self) -> list[str]:
        """Return the topics that have queues."""
        return sorted({topic for topic, _ in self.names()})

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues."""
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
        """The greatest `max_physic_offset` of all queues, -1 without queues."""
        ends = [queue.max_physic_offset for queue in self._queues.values()]
        if self._is_recovered:
            ends += [resting.end for resting in self._resting.values()]
        return max(ends, default=-1)

    @property
    def built_to(self) -> int:
        """Log offset after the newest record that has a unit, -1 without any.

        Call it after recovery. It equals `max_physic_offset` except for batch queues: there a broker's
        `max_physic_offset` is the start of the newest record.
        """
        return max(self.max_physic_offset, *(queue.built_to for queue in self._queues.values()), -1)

    # After a restart.

    def recover(self) -> int:
        """Find every queue's end; return max_physic_offset.

        A queue that can't be read is left out afterwards.
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

    def truncate_dirty(self, log_offset: int, *, as_broker: bool = False) -> None:
        """Truncate every queue to the units of records before `log_offset`."""
        for queue in self.reaching(log_offset):
            queue.truncate_dirty_logic_files(log_offset, as_broker=as_broker)

    def clear_cut_units(self) -> int:
        """Zero the stale units after a truncation; return the number of queues that had any."""
        return sum(queue.clear_cut_units() for queue in self.awake())

    def correct_min_offsets(self, min_log_offset: int) -> None:
        self._log_start = min_log_offset
        for queue in self.awake():
            queue.correct_min_offset(min_log_offset)

    def destroy(self) -> None:
        """Delete every queue file, as a broker does when the commit log is empty."""
        for queue in self:
            queue.destroy()

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
        """Return the folder of a queue, by the type of its topic."""
        return self._parents()[-1 if topic in self._others.topics else 0] / topic / str(queue_id)

    def _parents(self) -> list[Path]:
        """Return the parent folders of the topics: of plain queues, and of other queues if there are any."""
        layout = self._layout
        return [layout.consumequeue, *([layout.root / self._others.folder] if self._others.topics else [])]

    def _topic_folders(self) -> Iterator[Entry]:
        """List the topics' folders."""
        for parent in self._parents():
            yield from self._fs.list_folder(parent)

    def _new_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        others = self._others
        if others.make is not None and topic in others.topics:
            files = self._files(self.queue_folder(topic, queue_id), others.file_size)
            return others.make(topic, queue_id, files)
        files = self._files(self._layout.queue_folder(topic, queue_id), self._config.mapped_file_size_consume_queue)
        if not self._config.enable_consume_queue_ext:
            return ConsumeQueue(topic, queue_id, files, line=self._line)
        size = self._config.mapped_file_size_consume_queue_ext
        ext = ConsumeQueueExt(self._files(self._layout.queue_ext_folder(topic, queue_id), size))
        return ConsumeQueue(topic, queue_id, files, ext, self._line)

    def _files(self, folder: Path, file_size: int) -> MappedFileQueue:
        if self._overlay is None:
            return MappedFileQueue(
                folder, file_size, self._fs, writable=self._writable, unsynced=self._unsynced_folders
            )
        # All staged files share one folder: creating and removing a folder for each queue takes longer than the files.
        staged, prefix = self._overlay.folder / "consumequeue", f"{next(self._staged_numbers)}-"
        return OverlayFileQueue(folder, file_size, self._fs, self._overlay, staged, prefix=prefix)
