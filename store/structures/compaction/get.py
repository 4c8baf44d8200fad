"""Get messages of a compacted topic as the broker does; each call reads one file of units.

    no folder, or max == 0   NO_MESSAGE_IN_QUEUE     next 0
    offset == max            OFFSET_OVERFLOW_ONE     next offset
    offset > max             OFFSET_OVERFLOW_BADLY   next max; 0 if the minimum is 0
    else                     from the first kept message at or after the offset, even for an offset below the minimum

Source: CompactionLog.getMessage, SparseConsumeQueue.iterateFromOrNext (5.3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from store.config import StoreConfig
from store.errors import DamagedRecord
from store.files.store_reader import StoredFile, StoreReader
from store.formats.message import decode_record
from store.structures.compaction.files import Queue, compacted_topics, queue_files, read_units
from store.structures.consumequeue.batch_units import BatchUnitArray
from store.structures.get_result import GetResult, GetStatus, MessageFilter

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


class CompactedQueue:
    """One queue of the compaction store; its files are read once."""

    def __init__(self, files: StoreReader, queue: Queue) -> None:
        self._files = files
        found = queue_files(files, queue)
        self._parts: list[tuple[StoredFile, BatchUnitArray]] = [
            (log, read_units(files, units)) for log, units in found.pairs
        ]
        self.is_there = bool(found.logs)

    @property
    def min_offset(self) -> int:
        """Queue offset of the first kept message of a queue that has one."""
        return next(int(units["queue_offset"][0]) for _, units in self._parts if len(units))

    @property
    def max_offset(self) -> int:
        """Queue offset after the last message."""
        for _, units in reversed(self._parts):
            if len(units):
                return int(units["queue_offset"][-1]) + int(units["message_count"][-1])
        return 0

    def get(
        self, offset: int, max_count: int, config: StoreConfig, message_filter: MessageFilter | None = None
    ) -> GetResult:
        """Return the result of one call of CompactionLog.getMessage."""
        high = self.max_offset
        if high == 0:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        low = self.min_offset
        if offset == high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high if low else low, low, high)
        result = GetResult(GetStatus.NO_MATCHED_MESSAGE, offset, low, high)
        for log, units in self._parts:
            first = int(np.searchsorted(units["queue_offset"], offset))
            if first < len(units):
                self._collect(result, log, units[first:], max_count, config, message_filter)
                break
        return result

    def _collect(
        self,
        result: GetResult,
        log: StoredFile,
        units: BatchUnitArray,
        max_count: int,
        config: StoreConfig,
        message_filter: MessageFilter | None,
    ) -> None:
        most_bytes = config.max_transfer_bytes_on_message_in_memory
        most_messages = min(max_count, config.max_transfer_count_on_message_in_memory)
        for unit in units:
            size, place = int(unit["size"]), int(unit["log_offset"]) - log.number
            taken = len(result.messages)
            if taken and (taken >= most_messages or result.size + size > most_bytes):
                return
            result.next_offset = int(unit["queue_offset"]) + int(unit["message_count"])
            try:
                message = decode_record(self._files.read(log.path, place, size), position=int(unit["log_offset"]))
            except DamagedRecord as damage:
                result.damaged.append(damage)
                continue
            if message_filter is None or message_filter.matches(message):
                result.messages.append(message)
                result.size += size
                result.status = GetStatus.FOUND


class CopiedQueues:
    """The compacted queues of one opened store; each is read on its first use."""

    def __init__(self, opened: OpenedStore) -> None:
        self.opened = opened
        self._files = StoreReader.of(opened.layout, opened.fs)
        self._topics = compacted_topics(opened.layout.config, opened.fs)
        self._queues: dict[Queue, CompactedQueue] = {}

    def find(self, topic: str, queue_id: int) -> CompactedQueue | None:
        """Return the queue, None if it is not compacted or has no files."""
        if topic not in self._topics:
            return None
        key = topic, queue_id
        if key not in self._queues:
            self._queues[key] = CompactedQueue(self._files, key)
        return self._queues[key] if self._queues[key].is_there else None
