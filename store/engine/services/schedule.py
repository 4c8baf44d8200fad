"""ScheduleMessageService: delivers delayed messages of a live store.

It keeps config/delayOffset.json, as the broker does.

For each level, from the queue offset that it has reached, until a unit is not due:

    deliver time      the unit's tags code; now, if that is later than now + delay (the clock went back)
    no record         skipped
    REAL_TOPIC half   skipped: a half message is never delivered
    REAL_QID no int   4.9: the level waits there for ever; 5.3: skipped
    put refused       tried again at the next round
    put               the level's saved offset is the next one

The copy has the record's body, flags, times, hosts and properties (4.9: the same string; 5.3: in the order of a Java
map); preparedTransactionOffset is 0. Its properties still say DELAY, but it is not delayed again, and its put waits
neither for disk nor for slaves.

Source: ScheduleMessageService (4.9.8, 5.3.3).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from store.broker_line import BrokerLine
from store.engine.live.service import ServiceThread
from store.engine.writable_store import WritableStore
from store.formats.message import Message, StoredMessage
from store.formats.properties import REAL_TOPIC, encode_java_map, real_queue
from store.formats.topics import HALF_TOPIC, SCHEDULE_TOPIC
from store.structures.commitlog.put_result import PutResult, PutStatus
from store.structures.commitlog.rewritten import read_unit
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.delayoffsets.files import FILE_NAME, read_delay_offsets, write_delay_offsets
from store.structures.tables.data_version import DataVersion, read_data_version

FIRST_DELAY_MS = 1000
ROUND_MS = 100
PERSIST_MS = 10_000
VERSION_STEP = 200
"""delayOffsetUpdateVersionStep: updates per move of 5.x's data version."""


class LevelBacklog(NamedTuple):
    """The numbers of waiting and of overdue messages of one level, and the time since the oldest was due."""

    level: int
    delay_ms: int
    waiting: int
    overdue: int
    overdue_ms: int


class ScheduleMessageService(ServiceThread):
    """The delivery from the levels of `store`; `clock` returns milliseconds.

    start() runs it in a thread, stop() saves the offsets.
    """

    def __init__(self, store: WritableStore, clock: Callable[[], int]) -> None:
        super().__init__(ROUND_MS)
        opened = store.opened
        self._store, self._opened, self._clock = store, opened, clock
        self._delays = opened.config.delay_levels_ms
        self._saved_at = self._began = clock()
        self._updates = 0
        self.findings: list[str] = []
        self.on_delivered: Callable[[int, PutResult], None] = lambda level, result: None
        """Called with the level and the put of each delivery."""
        self.offsets = self._load()
        """The next queue offset of each level that ever delivered."""
        self._reached = dict(self.offsets)
        self._version = read_data_version(opened.layout.config, FILE_NAME, opened.fs) or DataVersion(
            timestamp_ms=self._began
        )

    def work(self) -> None:
        now_ms = self._clock()
        if now_ms - self._began >= FIRST_DELAY_MS:
            self.deliver()
        if now_ms - self._saved_at >= PERSIST_MS:
            self.persist()

    def last_work(self) -> None:
        self.persist()

    def deliver(self) -> int:
        """Deliver all messages that are due, and return their number."""
        return sum(self._deliver_level(level, delay) for level, delay in enumerate(self._delays, start=1))

    def persist(self) -> None:
        """Write config/delayOffset.json, the former one as .bak, as the broker does."""
        self._saved_at = self._clock()
        write_delay_offsets(
            self._opened.layout,
            self._opened.fs,
            self.offsets,
            self._version if self._opened.line.skips_delay_poison else None,
        )

    def backlog(self) -> list[LevelBacklog]:
        """Return the messages of each level that has a queue, at this moment."""
        levels = [(level, delay, self._queue(level)) for level, delay in enumerate(self._delays, start=1)]
        return [self._backlog(level, delay, queue) for level, delay, queue in levels if queue is not None]

    def _backlog(self, level: int, delay_ms: int, queue: ConsumeQueue) -> LevelBacklog:
        now_ms, waiting = self._clock(), range(self._next_offset(level, queue), queue.max_offset)

        def deliver_ms(offset: int) -> int:
            unit = queue.unit(offset)
            # A level waits at a unit that can't be read.
            return queue.real_tags_code(unit.tags_code) if unit is not None else now_ms

        overdue_ms = now_ms - deliver_ms(waiting[0]) if waiting else -1
        if overdue_ms < 0:
            return LevelBacklog(level, delay_ms, len(waiting), 0, 0)
        return LevelBacklog(level, delay_ms, len(waiting), bisect_right(waiting, now_ms, key=deliver_ms), overdue_ms)

    # Loading.

    def _load(self) -> dict[int, int]:
        """Return the saved offsets, moved into their queues (correctDelayOffset)."""
        offsets = read_delay_offsets(self._opened.layout, self._opened.fs)
        for level, offset in offsets.items():
            queue = self._queue(level)
            if queue is not None:
                offsets[level] = min(max(offset, queue.min_offset), queue.max_offset)
        return offsets

    def _queue(self, level: int) -> ConsumeQueue | None:
        return self._opened.queues.find(SCHEDULE_TOPIC, level - 1)

    # Delivering.

    def _deliver_level(self, level: int, delay_ms: int) -> int:
        queue, count = self._queue(level), 0
        if queue is None:
            return 0
        offset = self._next_offset(level, queue)
        while offset < queue.max_offset:
            outcome = self._deliver_unit(queue, offset, level, delay_ms)
            if outcome is None:
                break
            offset += 1
            count += outcome
            self._reached[level] = offset
            if outcome:
                self._save(level, offset)
        return count

    def _next_offset(self, level: int, queue: ConsumeQueue) -> int:
        return min(max(self._reached.get(level, 0), queue.min_offset), queue.max_offset)

    def _deliver_unit(self, queue: ConsumeQueue, offset: int, level: int, delay_ms: int) -> bool | None:
        """Return whether the unit's message was delivered; None if the level has to wait."""
        unit = queue.unit(offset)
        if unit is None:
            return None
        now_ms = self._clock()
        deliver_ms = queue.real_tags_code(unit.tags_code)
        if now_ms < deliver_ms <= now_ms + delay_ms:
            if self._opened.line.skips_delay_poison:
                # 5.3 saves the offset of a unit that is not due.
                self._save(level, offset)
            return None
        record = read_unit(self._opened.log, unit)
        if record is None or record.properties.get(REAL_TOPIC) == HALF_TOPIC:
            return False
        try:
            message = delivered_message(record, self._opened.line)
        except ValueError as error:
            self._note(f"level {level}, queue offset {offset}: {error}")
            return False if self._opened.line.skips_delay_poison else None
        result = self._store.put_replayed(message, waits=False)
        if result.status is not PutStatus.PUT_OK:
            return None
        self.on_delivered(level, result)
        return True

    def _note(self, finding: str) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    def _save(self, level: int, offset: int) -> None:
        self.offsets[level] = offset
        self._updates += 1
        if self._updates % VERSION_STEP == 0:
            self._version.move(self._clock())


def delivered_message(record: StoredMessage, line: BrokerLine) -> Message:
    """Return the message that a delayed record delivers.

    ValueError without REAL_TOPIC or REAL_QID (messageTimeup).
    """
    properties = record.properties
    topic, queue_id = real_queue(properties)
    if topic is None or queue_id is None:
        raise ValueError(f"the record at log offset {record.log_offset} has no REAL_TOPIC or no REAL_QID")
    encoded = encode_java_map(properties, ends_with_separator=line.ends_with_separator)
    return replace(record.as_put(), topic=topic, queue_id=queue_id, properties=encoded, prepared_transaction_offset=0)
