"""Finds the state of every delayed message, by its unit in SCHEDULE_TOPIC_XXXX.

    i   the unit's queue offset        D   its deliver time: the unit's tags code
    d   the level's offset in config/delayOffset.json, limited to the queue as in a broker that loads the file
    T   the time of the review         copy   a delivered record of the same message

    i below the queue's first unit, not yet delivered          lost
    record not in the log                                      lost; assumed if i < d
    copy found                                                 delivered if i < d, else duplicate: delivered again
    REAL_TOPIC is the half topic                               lost: never delivered, like placeholders of salvage
    no usable REAL_TOPIC or REAL_QID                           lost: there is no queue to deliver it to
    i < d                                                      assumed: the copy has expired
    D > T                                                      pending
    an earlier unit of the level blocks delivery               blocked
    else                                                       due

A unit blocks delivery while T < D <= T + delay: the clock went back, or the level's delay was longer. In 4.9 a record
without a usable REAL_TOPIC or REAL_QID stops its level for ever; 5.3 skips it.

Source: ScheduleMessageService.DeliverDelayedMessageTimerTask (4.9.8, 5.3.3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from store.formats.message import StoredMessage, is_queued
from store.formats.properties import DELAY, REAL_QUEUE_ID, REAL_TOPIC, real_queue
from store.formats.topics import HALF_TOPIC, SCHEDULE_TOPIC
from store.structures.commitlog.rewritten import queue_records, rewritten_records
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.delayoffsets.files import read_delay_offsets

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore

UNKNOWN_LEVEL_DELAY_MS = 1000


class DelayState(StrEnum):
    """State of a delayed message."""

    PENDING = "pending"
    DUE = "due"
    BLOCKED = "blocked"
    DELIVERED = "delivered"
    DUPLICATE = "duplicate"
    ASSUMED = "assumed"
    LOST = "lost"


@dataclass(slots=True)
class DelayedMessage:
    """One unit of a level. Unknown offsets are -1, unknown texts None."""

    state: DelayState
    level: int
    queue_offset: int
    log_offset: int = -1
    store_timestamp_ms: int = 0
    deliver_timestamp_ms: int = 0
    delivered_log_offset: int = -1
    topic: str | None = None
    queue_id: int = -1
    uniq_key: str | None = None
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DelayLevel:
    """One level: its delay, its queue's offsets and its saved offset, None without one."""

    level: int
    delay_ms: int | None
    min_offset: int
    max_offset: int
    saved_offset: int | None

    @property
    def next_offset(self) -> int:
        """The saved offset, corrected as in a broker (ScheduleMessageService.correctDelayOffset)."""
        return min(max(self.saved_offset or 0, self.min_offset), self.max_offset)


def delay_levels(opened: OpenedStore) -> tuple[list[DelayLevel], dict[int, ConsumeQueue]]:
    """Return each level with a queue or saved offset, and the queues by level."""
    offsets = read_delay_offsets(opened.layout, opened.fs)
    delays = opened.config.delay_levels_ms
    queues = {queue.queue_id + 1: queue for queue in opened.queues.of_topic(SCHEDULE_TOPIC)}
    levels = [
        DelayLevel(
            level,
            delays[level - 1] if 0 < level <= len(delays) else None,
            queues[level].min_offset if level in queues else 0,
            queues[level].max_offset if level in queues else 0,
            offsets.get(level),
        )
        for level in sorted({*queues, *offsets})
    ]
    return levels, queues


def review_delays(opened: OpenedStore, time_ms: int) -> tuple[list[DelayLevel], list[DelayedMessage]]:
    """Return each level with a queue or saved offset, and each delayed message, as of `time_ms`."""
    levels, queues = delay_levels(opened)
    copies = _Copies(rewritten_records(opened.log))
    messages = [
        message
        for level in levels
        if level.level in queues
        for message in _Level(opened, level, queues[level.level], copies, time_ms).messages()
    ]
    return levels, messages


class _Copies:
    """Delivered records by message; `take` returns each once, for its oldest source."""

    def __init__(self, records: Iterable[StoredMessage]) -> None:
        self._found: dict[object, list[StoredMessage]] = defaultdict(list)
        for record in records:
            if record.topic != SCHEDULE_TOPIC and DELAY in record.properties:
                self._found[_identity(record)].append(record)

    def take(self, source: StoredMessage, topic: str, earliest_ms: int) -> StoredMessage | None:
        """Return the first copy after `source` in `topic`, stored at `earliest_ms` or later."""
        candidates = self._found.get(_identity(source), [])
        for place, copy in enumerate(candidates):
            if copy.log_offset > source.log_offset and copy.topic == topic and copy.store_timestamp_ms >= earliest_ms:
                return candidates.pop(place)
        return None


def _identity(record: StoredMessage) -> object:
    """Return the fields shared by a copy and its source: the unique key, else born fields and body CRC."""
    return record.uniq_key or (record.born_timestamp_ms, record.born_host, record.body_crc)


class _Level:
    """The review of one level's queue."""

    def __init__(
        self, opened: OpenedStore, level: DelayLevel, queue: ConsumeQueue, copies: _Copies, time_ms: int
    ) -> None:
        self.opened = opened
        self.level = level
        self.queue = queue
        self.copies = copies
        self.time_ms = time_ms
        self.delay_ms = UNKNOWN_LEVEL_DELAY_MS if level.delay_ms is None else level.delay_ms
        self.is_blocked = False

    def messages(self) -> Iterator[DelayedMessage]:
        saved, number = self.level.saved_offset, self.level.level
        if saved is not None:
            for queue_offset in range(saved, self.level.min_offset):
                yield DelayedMessage(DelayState.LOST, number, queue_offset)
        for queue_offset, unit, record in queue_records(self.opened.log, self.queue):
            deliver_ms = self.queue.real_tags_code(unit.tags_code)
            message = DelayedMessage(
                DelayState.PENDING, number, queue_offset, unit.log_offset, deliver_timestamp_ms=deliver_ms
            )
            if record is None:
                done = queue_offset < self.level.next_offset
                message.state = DelayState.ASSUMED if done else DelayState.LOST
            else:
                self._judge(message, record)
            yield message

    def _judge(self, message: DelayedMessage, record: StoredMessage) -> None:
        properties = record.properties
        message.store_timestamp_ms = record.store_timestamp_ms
        message.uniq_key = record.uniq_key
        message.topic, real_queue_id = real_queue(properties)
        message.queue_id = -1 if real_queue_id is None else real_queue_id
        message.warnings = list(self._warnings(message, record, properties))
        is_poison = message.topic is None or real_queue_id is None
        earliest_ms = min(message.deliver_timestamp_ms, record.store_timestamp_ms + self.delay_ms)
        copy = self.copies.take(record, message.topic, earliest_ms) if message.topic is not None else None
        message.delivered_log_offset = copy.log_offset if copy is not None else -1
        message.state = self._state(message, is_poison=is_poison)
        self._note_block(message, is_poison=is_poison)

    def _state(self, message: DelayedMessage, *, is_poison: bool) -> DelayState:
        is_done = message.queue_offset < self.level.next_offset
        if message.delivered_log_offset >= 0:
            return DelayState.DELIVERED if is_done else DelayState.DUPLICATE
        if message.topic == HALF_TOPIC or is_poison:
            return DelayState.LOST
        if is_done:
            return DelayState.ASSUMED
        if message.deliver_timestamp_ms > self.time_ms:
            return DelayState.PENDING
        return DelayState.BLOCKED if self.is_blocked else DelayState.DUE

    def _note_block(self, message: DelayedMessage, *, is_poison: bool) -> None:
        """Set `is_blocked` if this unit blocks delivery of later ones."""
        if message.queue_offset < self.level.next_offset:
            return
        waits = self.time_ms < message.deliver_timestamp_ms <= self.time_ms + self.delay_ms
        self.is_blocked |= waits or (is_poison and not self.opened.line.skips_delay_poison)

    def _warnings(self, message: DelayedMessage, record: StoredMessage, properties: Mapping[str, str]) -> Iterator[str]:
        if self.level.delay_ms is None:
            yield f"level {self.level.level} is not configured, so no service delivers from its queue"
        for name in (REAL_TOPIC, REAL_QUEUE_ID):
            if name not in properties:
                yield f"the property {name} is missing"
        if properties.get(DELAY) != str(self.level.level):
            yield f"the property DELAY is {properties.get(DELAY)}, the queue is that of level {self.level.level}"
        expected_ms = record.store_timestamp_ms + self.delay_ms
        if message.deliver_timestamp_ms != expected_ms:
            found_ms = message.deliver_timestamp_ms
            yield f"the entry has deliver time {found_ms} ms, store time and level give {expected_ms} ms"
        if not is_queued(record.sys_flag):
            yield "a part of a transaction cannot be delayed"
