"""QueueTable: the queues met so far, numbered in the order of their first records.

The arrays are the hash table that the kernel assign_queues reads. This class adds the queues that the kernel does not
find, and doubles the arrays when the hash table is half full.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from store import kernels
from store.formats.columns import Column
from store.formats.java import decode_utf8
from store.kernels.dispatch import (
    EMPTY,
    QUEUE_HASH,
    QUEUE_ID,
    QUEUE_ROWS,
    QUEUE_TOPIC_AT,
    QUEUE_TOPIC_SIZE,
)

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
        self._topics_size = 0
        self._rows: Int64Array = np.zeros((QUEUE_ROWS, _FIRST_CAPACITY), np.int64)
        self._table: Int64Array = np.full(2 * _FIRST_CAPACITY, EMPTY, np.int64)

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
            done = kernels.assign_queues(
                buffer, columns, done, count, queued_only, self._topics.data, self._rows, self._table, slots
            )
            if done >= count:
                return slots
            at, size = int(columns[Column.TOPIC_POSITION, done]), int(columns[Column.TOPIC_SIZE, done])
            self.add(bytes(buffer[at : at + size]), int(columns[Column.QUEUE_ID, done]))

    def add(self, topic: bytes, queue_id: int) -> int:
        """Add a queue that is not in the table yet; return its number."""
        number = len(self.queues)
        if number == self._rows.shape[1]:
            self._grow()
        self._rows[QUEUE_TOPIC_AT, number] = self._append_topic(topic)
        self._rows[QUEUE_TOPIC_SIZE, number] = len(topic)
        self._rows[QUEUE_ID, number] = queue_id
        self._rows[QUEUE_HASH, number] = kernels.hash_queue(topic, queue_id)
        self.queues.append((topic, queue_id))
        self.names.append((decode_utf8(topic), queue_id))
        self._enter(number)
        return number

    def _append_topic(self, topic: bytes) -> int:
        """Append the topic's bytes to the kernel's topic buffer; return their position."""
        at, end = self._topics_size, self._topics_size + len(topic)
        while end > len(self._topics):
            self._topics = np.concatenate([self._topics, np.zeros_like(self._topics)])
        self._topics.data[at:end] = topic
        self._topics_size = end
        return at

    def _enter(self, number: int) -> None:
        mask = len(self._table) - 1
        place = int(self._rows[QUEUE_HASH, number]) & mask
        while self._table[place] != EMPTY:
            place = (place + 1) & mask
        self._table[place] = number

    def _grow(self) -> None:
        self._rows = np.hstack([self._rows, np.zeros_like(self._rows)])
        self._table = np.full(2 * len(self._table), EMPTY, np.int64)
        for number in range(len(self.queues)):
            self._enter(number)
