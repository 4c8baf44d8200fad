"""Find the state of every record of rmq_sys_wheel_timer.

    U   its newest unit in the timerlog     T   the time of its slot     R   the read time of the timer service

    no U, and a copy is in its real topic              delivered (due when the service read it)
    no U, and the service took up the queue behind it  deleted by one of the same time that is there, else lost
    no U                                               pending: not on the wheel yet
    T < R, U rolls                                     rolled: put into the topic anew
    T < R, a delete of it was in its slot              deleted
    T < R, copy found                                  delivered
    T < R                                              lost
    T >= R, the wheel does not lead to U               lost
    T >= R, a delete of it is in its slot              deleted; deleteRolling while both roll
    T >= R, U rolls and a newer record of it is there  duplicate: the slot fires again
    T >= R, U does not roll, and a copy is there       duplicate: the slot fires again
    T >= R                                             pending

A start takes up the queue behind the last unit's message, but not later than timercheck's: what it takes up though it
has a unit or a copy is a duplicate too.
A record with TIMER_DEL_UNIQKEY is a delete. A record that the log no longer has is lost, or
assumed delivered where T < R.

Source: TimerMessageStore.enqueue, dequeue (5.3.3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from store.formats.java import parse_long
from store.formats.message import StoredMessage
from store.formats.properties import REAL_QUEUE_ID, REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, TIMER_ROLL_TIMES
from store.formats.queue_unit import QueueUnit
from store.formats.topics import TIMER_TOPIC
from store.formats.wording import amount
from store.structures.commitlog.rewritten import queue_records, rewritten_records
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.timer.files import DELETE, NO_FILES, ROLL, TimerFiles, read_timer_files

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


class TimerState(StrEnum):
    """Name the state of a timer message."""

    PENDING = "pending"
    ROLLED = "rolled"
    DELIVERED = "delivered"
    DUPLICATE = "duplicate"
    DELETED = "deleted"
    DELETE = "delete"
    DELETE_ROLLING = "deleteRolling"
    ASSUMED = "assumed"
    LOST = "lost"


@dataclass(slots=True)
class TimerMessage:
    """One record of the timer topic. Positions and times are -1 where nothing names them.

    deliver_timestamp_ms  when it is due, a multiple of the precision below the wanted time
    slot_timestamp_ms     when its slot fires, which is earlier while it rolls
    """

    state: TimerState
    queue_offset: int
    log_offset: int
    size: int
    topic: str | None = None
    queue_id: int = -1
    uniq_key: str | None = None
    deliver_timestamp_ms: int = -1
    slot_timestamp_ms: int = -1
    roll_times: int = 0
    magic: int = -1
    timer_log_position: int = -1
    delivered_log_offset: int = -1
    is_overdue: bool = False
    store_timestamp_ms: int = -1
    deletes: str | None = None
    """Real topic and unique key of the message that this one deletes."""

    @property
    def times_ms(self) -> tuple[int, int]:
        """Deliver time and slot: a delete is effective only on a message that has the same ones."""
        return self.deliver_timestamp_ms, self.slot_timestamp_ms


@dataclass(frozen=True, slots=True)
class TimerReview:
    """All timer messages, and how far the service came."""

    messages: list[TimerMessage]
    read_time_ms: int
    queue_offset: int
    max_queue_offset: int
    precision_ms: int


def review_timers(opened: OpenedStore, time_ms: int) -> TimerReview:
    """Find the state of every timer message; those due before `time_ms` that are pending are overdue."""
    files = read_timer_files(opened.layout, opened.fs)
    queue = opened.queues.find(TIMER_TOPIC, 0)
    messages = list(_Review(opened, files).messages(queue)) if queue is not None else []
    for message in messages:
        message.is_overdue = message.state is TimerState.PENDING and 0 <= message.deliver_timestamp_ms < time_ms
    at = files.checkpoint.queue_offset if files.checkpoint is not None else 0
    return TimerReview(messages, files.read_time_ms, at, queue.max_offset if queue else 0, files.precision_ms)


def describe_duplicates(opened: OpenedStore) -> tuple[int, str]:
    """Count the messages that a start delivers or rolls once more, with a sentence that names the first."""
    found = [one for one in review_timers(opened, 0).messages if one.state is TimerState.DUPLICATE]
    if not found:
        return 0, ""
    return len(found), (
        f"a start delivers or rolls {amount(len(found), 'timer message')} once more, the first at queue offset "
        f"{found[0].queue_offset}: timercheck was saved before what the timer did with them"
    )


def messages_by_log(opened: OpenedStore, queue: ConsumeQueue) -> list[TimerMessage]:
    """The timer messages with the states that the log alone tells: delivered, delete, else pending."""
    return list(_Review(opened, NO_FILES).messages(queue))


class _Review:
    """Walk over the timer queue, and compare its records with units and copies."""

    def __init__(self, opened: OpenedStore, files: TimerFiles) -> None:
        self._opened, self._files = opened, files
        # Of a record that was enqueued twice the newest unit counts.
        self._rows = {int(offset): row for row, offset in enumerate(files.units["log_offset"])}
        self._reachable = _reachable_rows(files)
        self._taken_up = 0
        self._rolls: dict[tuple[str | None, ...], int] = {}
        self._copies = _copies_by_identity(rewritten_records(opened.log))

    def messages(self, queue: ConsumeQueue) -> Iterator[TimerMessage]:
        found = [
            (self._message(at, unit, record), record) for at, unit, record in queue_records(self._opened.log, queue)
        ]
        self._taken_up = self._find_taken_up(message for message, _ in found)
        deletes = {
            (*message.times_ms, message.deletes)
            for message, record in found
            if record is not None and (message.magic & DELETE if message.magic >= 0 else self._lacks_unit(message))
        }
        for message, record in found:
            if record is not None and message.deletes is None:
                identity = _identity(record)
                self._rolls[identity] = max(self._rolls.get(identity, 0), message.roll_times)
        for message, record in found:
            name = f"{message.topic}+{message.uniq_key}"
            state = self._state(message, record, has_delete=(*message.times_ms, name) in deletes)
            if self._comes_again(message, state):
                state = TimerState.DUPLICATE
            message.state = state
            yield message

    def _comes_again(self, message: TimerMessage, state: TimerState) -> bool:
        """Whether a start takes up a message that has a unit or a copy, with a delivery more."""
        if not self._files.is_used or message.deletes is not None or message.queue_offset < self._taken_up:
            return False
        has_unit = state in (TimerState.PENDING, TimerState.ROLLED) and message.magic >= 0
        return has_unit or state is TimerState.DELIVERED

    def _find_taken_up(self, messages: Iterable[TimerMessage]) -> int:
        """Find the first queue offset to be taken up by a start.

        It is the one behind the last unit's message, without units timercheck's.
        """
        if self._files.checkpoint is None:
            return 0
        offsets = self._files.units["log_offset"]
        last = next((one.queue_offset for one in messages if len(offsets) and one.log_offset == offsets[-1]), None)
        end = last + 1 if last is not None else self._files.checkpoint.queue_offset
        return min(end, self._files.checkpoint.master_queue_offset)

    def _lacks_unit(self, message: TimerMessage) -> bool:
        """Whether a message has no unit in the timer log, and no start gives it one."""
        return message.magic < 0 and message.queue_offset < self._taken_up

    def _message(self, queue_offset: int, unit: QueueUnit, record: StoredMessage | None) -> TimerMessage:
        message = TimerMessage(TimerState.PENDING, queue_offset, unit.log_offset, unit.size)
        row = self._rows.get(message.log_offset)
        if row is not None:
            message.slot_timestamp_ms = int(self._files.slot_times_ms[row])
            message.magic = int(self._files.units["magic"][row])
            message.timer_log_position = int(self._files.positions[row])
        if record is not None:
            properties = record.properties
            message.topic, message.uniq_key = properties.get(REAL_TOPIC), record.uniq_key
            message.queue_id = number_in(properties.get(REAL_QUEUE_ID), -1)
            message.deliver_timestamp_ms = number_in(properties.get(TIMER_OUT_MS), -1)
            message.store_timestamp_ms = record.store_timestamp_ms
            message.deletes = properties.get(TIMER_DEL_UNIQKEY)
            message.roll_times = number_in(properties.get(TIMER_ROLL_TIMES), 0)
        return message

    def _state(self, message: TimerMessage, record: StoredMessage | None, *, has_delete: bool) -> TimerState:
        row = self._rows.get(message.log_offset)
        fired = row is not None and message.slot_timestamp_ms < self._files.read_time_ms
        rolls = row is not None and bool(message.magic & ROLL)
        if record is None:
            return TimerState.ASSUMED if fired else TimerState.LOST
        if fired and rolls:
            return TimerState.ROLLED
        if TIMER_DEL_UNIQKEY in record.properties:
            return TimerState.DELETE
        if has_delete:
            return TimerState.DELETE_ROLLING if rolls else TimerState.DELETED
        if rolls:
            done = TimerState.ROLLED if message.roll_times < self._rolls[_identity(record)] else None
        else:
            done = TimerState.DELIVERED if self._has_copy(message, record) else None
        if row is None or fired:
            return done or (TimerState.LOST if fired or self._lacks_unit(message) else TimerState.PENDING)
        if row not in self._reachable:
            return done or TimerState.LOST
        return TimerState.DUPLICATE if done else TimerState.PENDING

    def _has_copy(self, message: TimerMessage, record: StoredMessage) -> bool:
        copies = self._copies.get(_identity(record), [])
        if copies:
            message.delivered_log_offset = copies.pop(0)
        return message.delivered_log_offset >= 0


def _copies_by_identity(records: Iterable[StoredMessage]) -> dict[tuple[str | None, ...], list[int]]:
    """Group the log offsets of delivered records by identity."""
    found: dict[tuple[str | None, ...], list[int]] = defaultdict(list)
    for record in records:
        if record.topic != TIMER_TOPIC and TIMER_OUT_MS in record.properties:
            found[_identity(record)].append(record.log_offset)
    return found


def _identity(record: StoredMessage) -> tuple[str | None, ...]:
    return record.properties.get(REAL_TOPIC), record.uniq_key, record.properties.get(TIMER_OUT_MS)


def _reachable_rows(files: TimerFiles) -> set[int]:
    """Collect the rows of the units in slots that have not fired."""
    if files.wheel is None:
        return set()
    times = files.wheel["time"][files.used_slots].astype("i8") * files.precision_ms
    live = files.used_slots[times >= files.read_time_ms]
    return {row for slot in live.tolist() for row in files.chain(slot)}


def number_in(text: str | None, default: int) -> int:
    """The number of a property, `default` where it is none."""
    number = parse_long(text) if text is not None else None
    return number if number is not None else default
