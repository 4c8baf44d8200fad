"""QueueTable: the queues met so far, numbered in the order of their first records.

The arrays are the hash table of the kernel assign_queues, which adds new queues to it. This class makes room for them,
and doubles the arrays when the hash table is half full.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from store import kernels
from store.formats.columns import COLUMN_NAMES, Column
from store.formats.java import decode_utf8
from store.kernels.queue_table import EMPTY, QUEUE_ID, QUEUE_ROWS, QUEUE_TOPIC_AT, QUEUE_TOPIC_SIZE

Int64Array = npt.NDArray[np.int64]
_FIRST_CAPACITY = 64
_FIRST_TOPIC_BYTES = 4096


class QueueTable:
    """(topic bytes, queue id) <-> 0, 1, 2 …

    queues  the pairs by number
    names   the same pairs with the topic as text
    """

    def __init__(self) -> None:
        self.queues: list[tuple[bytes, int]] = []
        self.names: list[tuple[str, int]] = []
        self._topics: npt.NDArray[np.uint8] = np.zeros(_FIRST_TOPIC_BYTES, np.uint8)
        self._rows: Int64Array = np.zeros((QUEUE_ROWS, _FIRST_CAPACITY), np.int64)
        self._table: Int64Array = np.full(2 * _FIRST_CAPACITY, EMPTY, np.int64)
        self._used: Int64Array = np.zeros(2, np.int64)
        """The queues in the arrays, and their bytes in `_topics`."""

    def __len__(self) -> int:
        return len(self.queues)

    def assign(
        self,
        buffer: memoryview,
        columns: Int64Array,
        count: int,
        *,
        queued_only: bool = True,
        slots: Int64Array | None = None,
    ) -> Int64Array:
        """Return the queue number of each of the `count` records; -1 for a record that no consumer may see."""
        slots = np.empty(count, np.int64) if slots is None else slots
        done = 0
        while True:
            topics, rows, table, used = self._topics.data, self._rows, self._table, self._used
            done = kernels.assign_queues(buffer, columns, done, count, queued_only, topics, rows, table, used, slots)
            if done >= count:
                self._name_new_queues()
                return slots
            self._make_room(int(columns[Column.TOPIC_SIZE, done]))

    def add(self, topic: bytes, queue_id: int) -> int:
        """Return the queue's number; a queue that is not in the table yet is added."""
        columns = np.zeros((len(COLUMN_NAMES), 1), np.int64)
        columns[[Column.TOPIC_SIZE, Column.QUEUE_ID], 0] = len(topic), queue_id
        return int(self.assign(memoryview(topic), columns, 1)[0])

    def _name_new_queues(self) -> None:
        first, count = len(self.queues), int(self._used[0])
        if first == count:
            return
        places, sizes, queue_ids = self._rows[[QUEUE_TOPIC_AT, QUEUE_TOPIC_SIZE, QUEUE_ID], first:count].tolist()
        data, base = self._topics[places[0] :].tobytes(), places[0]
        topics = [data[at - base : at - base + size] for at, size in zip(places, sizes, strict=True)]
        texts = {topic: decode_utf8(topic) for topic in set(topics)}
        self.queues += zip(topics, queue_ids, strict=True)
        self.names += zip(map(texts.__getitem__, topics), queue_ids, strict=True)

    def _make_room(self, topic_size: int) -> None:
        """Double the arrays that have no room for a queue with a topic of this size."""
        queue_count, topic_bytes = self._used.tolist()
        while topic_bytes + topic_size > len(self._topics):
            self._topics = np.concatenate([self._topics, np.zeros_like(self._topics)])
        if queue_count == self._rows.shape[1]:
            self._rows = np.hstack([self._rows, np.zeros_like(self._rows)])
            self._table = np.full(2 * len(self._table), EMPTY, np.int64)
            kernels.enter_queues(self._rows, self._table, queue_count)
