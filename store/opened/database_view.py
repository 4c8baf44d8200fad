"""DatabaseQueueView: the consume queues in a store's database, each read at its first use.

CombinedQueueView has the queues of files, and from the database those without files.

A queue has the database's units up to the log's end; units after the database's checkpoint are built from the log.
If the database can't be read, every queue is built from the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any

from store.errors import StoreError
from store.formats.topics import shares_records
from store.opened.missing import Repair
from store.opened.queue_view import QueueView
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.queue_set import QueueKey
from store.structures.consumequeue.resting import RestingQueue
from store.structures.registry import names_of, rooms_with


class DatabaseQueueView(QueueView):
    """The queues of a database, completed from the log after its checkpoint."""

    _database: Any = None
    _is_opened = False

    @cached_property
    def _room(self) -> ModuleType:
        return next(rooms_with(names_of(self._layout, self._fs), "view", "open_queues", in_database=True))

    @property
    def _opened(self) -> Any:
        """The database, opened at its first use; None and a note if it can't be read."""
        if not self._is_opened:
            self._is_opened = True
            assert self._overlay is not None
            try:
                self._database = self._room.open_queues(self._layout, self._overlay.folder, self._fs)
            except StoreError as error:
                self._give_up(error)
        return self._database

    def _give_up(self, error: StoreError) -> None:
        self._database = None
        self._note(f"{error}; the queues are read from the log")

    def topics(self) -> list[str]:
        """Return the topics of the database, and of queues that were opened or met in the log."""
        return sorted({topic for topic, _ in self._known_keys()})

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues."""
        return sorted({queue_id for name, queue_id in self._known_keys() if name == topic})

    def _known_keys(self) -> set[QueueKey]:
        if self._opened is None:
            # Without the database only the log lists the queues.
            return {(queue.topic, queue.queue_id) for queue in self}
        self._meet_from(max(self._opened.checkpoint, self._log.start))
        met = ((topic, queue_id) for topic, ids in self._builder.met.items() for queue_id in ids)
        return {*self._opened.newest, *self._queues, *met}

    def _has_files(self, key: QueueKey) -> bool:
        return self._opened is not None and key in self._opened.newest

    def end_on_disk(self, topic: str, queue_id: int) -> int:
        """Return the database's checkpoint: every record before it has its units; -1 without a database."""
        return self._opened.checkpoint if self._opened is not None else -1

    def _keys_on_disk(self) -> Iterator[QueueKey]:
        yield from self._opened.newest if self._opened is not None else ()

    def _find_resting(self, keys: Sequence[QueueKey]) -> dict[QueueKey, RestingQueue]:
        """Return none: no queue has a file."""
        return {}

    def _open(self, key: QueueKey) -> Repair:
        queue = self._new_queue(*key)
        database, trusted = self._opened, self._log.start
        if database is not None:
            try:
                self._room.fill(queue, database)
            except StoreError as error:
                self._give_up(error)
                queue = self._new_queue(*key)
            else:
                trusted = database.checkpoint
        if queue.max_physic_offset >= self._log.stop:
            queue.truncate_dirty_logic_files(self._log.stop)
        tail = max(trusted, queue.built_to, self._log.start)
        return Repair(queue, tail=tail if tail < self._log.stop else None)

    def _new_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        files = self._files(self._layout.queue_folder(topic, queue_id), self._room.FILE_SIZE)
        queue: ConsumeQueue = self._room.new_queue(topic, queue_id, files)
        return queue


class CombinedQueueView(DatabaseQueueView):
    """The queues of files, and the database's queues without files."""

    @cached_property
    def _alone(self) -> set[QueueKey]:
        return self._room.queues_alone(self._opened, self._layout, self._fs) if self._opened is not None else set()

    def topics(self) -> list[str]:
        return sorted({*QueueView.topics(self), *(topic for topic, _ in self._alone)})

    def queue_ids(self, topic: str) -> list[int]:
        alone = (queue_id for name, queue_id in self._alone if name == topic) if shares_records(topic) else ()
        return sorted({*QueueView.queue_ids(self, topic), *alone})

    def end_on_disk(self, topic: str, queue_id: int) -> int:
        return self._view_of((topic, queue_id)).end_on_disk(self, topic, queue_id)

    def _has_files(self, key: QueueKey) -> bool:
        return self._view_of(key)._has_files(self, key)

    def _view_of(self, key: QueueKey) -> type[QueueView]:
        # The order matters: `_alone` opens the database, and other names do not need it.
        return DatabaseQueueView if shares_records(key[0]) and key in self._alone else QueueView

    def _keys_on_disk(self) -> Iterator[QueueKey]:
        yield from QueueView._keys_on_disk(self)
        yield from sorted(self._alone)

    def _find_resting(self, keys: Sequence[QueueKey]) -> dict[QueueKey, RestingQueue]:
        return QueueView._find_resting(self, [key for key in keys if key not in self._alone])

    def _open(self, key: QueueKey) -> Repair:
        return self._view_of(key)._open(self, key)

    def _new_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        return self._view_of((topic, queue_id))._new_queue(self, topic, queue_id)
