"""RocksQueueView: the consume queues in a store's RocksDB, each read when it is asked for.

A queue is filled with the units of the database, cut where the log ends, and completed from the log behind the
database's checkpoint. Where the database can't be read, every queue is built from the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from store.errors import StoreError
from store.files.rocksdb_files import queue_database
from store.opened.missing import Repair
from store.opened.queue_view import QueueView
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.queue_set import QueueKey
from store.structures.consumequeue.resting import RestingQueue
from store.structures.queuedb.database import QueueDatabase, open_database
from store.structures.queuedb.queue import SCRATCH_FILE_SIZE, RocksQueue


class RocksQueueView(QueueView):
    """The queues of a RocksDB, and of the log behind it."""

    _database: QueueDatabase | None = None
    _is_opened = False

    @property
    def database(self) -> QueueDatabase | None:
        """Opens the database at the first use; None where RocksDB can't read it, with a note."""
        if not self._is_opened:
            self._is_opened = True
            assert self._overlay is not None
            try:
                folder = queue_database(self._layout, self._fs)
                self._database = open_database(folder, self._overlay.folder, self._fs)
            except StoreError as error:
                self._give_up(error)
        return self._database

    def _give_up(self, error: StoreError) -> None:
        self._database = None
        self._note(f"{error}; the queues are read from the log")

    def topics(self) -> list[str]:
        """The topics of the database, and those of queues that were opened or met in the log."""
        return sorted({topic for topic, _ in self._known_keys()})

    def queue_ids(self, topic: str) -> list[int]:
        """The ids of a topic's queues."""
        return sorted({queue_id for name, queue_id in self._known_keys() if name == topic})

    def _known_keys(self) -> set[QueueKey]:
        if self.database is None:
            # What queues there are, the log alone tells.
            return {(queue.topic, queue.queue_id) for queue in self}
        return {*self.database.newest, *self._queues, *self._builder.met}

    def end_on_disk(self, topic: str, queue_id: int) -> int:
        """The log offset behind the newest record that the database has units of, -1 without it."""
        return self.database.checkpoint if self.database is not None else -1

    def _keys_on_disk(self) -> Iterator[QueueKey]:
        yield from self.database.newest if self.database is not None else ()

    def _find_resting(self, keys: Sequence[QueueKey]) -> dict[QueueKey, RestingQueue]:
        """None: no queue has a file."""
        return {}

    def _open(self, key: QueueKey) -> Repair:
        queue = self._new_queue(*key)
        assert isinstance(queue, RocksQueue)
        database, trusted = self.database, self._log.start
        if database is not None:
            try:
                queue.append_units(database.units(key))
            except StoreError as error:
                self._give_up(error)
                queue = self._new_queue(*key)
            else:
                queue.oldest, queue.newest = database.oldest.get(key), database.newest.get(key)
                trusted = database.checkpoint
        if queue.max_physic_offset >= self._log.stop:
            queue.truncate_dirty_logic_files(self._log.stop)
        tail = max(trusted, queue.built_to, self._log.start)
        return Repair(queue, tail=tail if tail < self._log.stop else None)

    def _new_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        return RocksQueue(topic, queue_id, self._files(self._layout.queue_folder(topic, queue_id), SCRATCH_FILE_SIZE))
