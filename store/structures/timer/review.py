"""Find the state of every record of rmq_sys_wheel_timer.

    U   its newest unit in the timerlog     T   the time of its slot     R   the read time of the timer service

    no U, and a copy is in its real topic              delivered (due when the service read it)
    no U, and the service has read the queue past it   deleted by a delete of the same times, else lost
    no U                                               pending: not on the wheel yet
    no files of a timer                                rolled if it has a newer record; delivered with a copy; deleted
                                                       by a delete of the same time; else pending
    T < R, U rolls                                     rolled: stored in the timer topic again
    T < R, a delete of it was in its slot              deleted
    T < R, copy found                                  delivered
    T < R                                              lost
    T >= R, the wheel does not lead to U               lost
    T >= R, a delete of it is in its slot              deleted; deleteRolling while both roll
    T >= R, U rolls and it has a newer record          duplicate: the slot fires again
    T >= R, U does not roll, and it has a copy         duplicate: the slot fires again
    T >= R                                             pending

A start resumes the queue after the message of the last unit, but not after timercheck's queue offset. A resumed message
that has a unit or a copy is a duplicate too.
A record with TIMER_DEL_UNIQKEY is a delete. A record that the log has lost is lost, or assumed delivered if T < R.

Source: TimerMessageStore.enqueue, dequeue (5.3.3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from store.formats.message import StoredMessage
from store.formats.properties import REAL_QUEUE_ID, REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, TIMER_ROLL_TIMES
from store.formats.queue_unit import QueueUnit
from store.formats.topics import TIMER_TOPIC
from store.formats.wording import amount
from store.structures.commitlog.rewritten import queue_records, records_of_topic, records_with
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.timer.files import DELETE, NO_FILES, ROLL, TimerFiles, read_timer_files
from store.structures.timer.findings import TIMELINE_AGAIN, TIMER_AGAIN
from store.structures.timer.message import TimerMessage, TimerState, number_in
from store.structures.timer.timeline import PLACE, PRECISION_MS, read_timeline, timeline_states

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


@dataclass(frozen=True, slots=True)
class TimerReview:
    """All timer messages, and the progress of the timer service.

    is_by_log    the store has no files of the timer: the log alone does not show what a start delivers again
    in_database  a message database fires the timers, and not the wheel
    """

    messages: list[TimerMessage]
    read_time_ms: int
    queue_offset: int
    max_queue_offset: int
    precision_ms: int
    is_by_log: bool = False
    in_database: bool = False


def review_timers(opened: OpenedStore, time_ms: int) -> TimerReview:
    """Find the state of every timer message; pending messages due before `time_ms` are overdue."""
    files = read_timer_files(opened.layout, opened.fs, opened.config)
    queue = opened.queues.find(TIMER_TOPIC, 0)
    timeline = read_timeline(opened)
    review = _Review(opened, files)
    messages: list[TimerMessage] = []
    if queue is not None or opened.next_offset is not None:
        messages = list(
            timeline_states(timeline, opened, review.found(queue), time_ms)
            if timeline is not None
            else review.messages(queue)
        )
    for message in messages:
        message.is_overdue = message.state is TimerState.PENDING and 0 <= message.deliver_timestamp_ms < time_ms
    end = opened.max_offset(TIMER_TOPIC, 0)
    if timeline is not None:
        fired_ms, scan_offset = timeline.fired_ms or 0, timeline.scan_offset
        return TimerReview(messages, fired_ms, scan_offset, end, PRECISION_MS, in_database=True)
    at = files.checkpoint.queue_offset if files.checkpoint is not None else 0
    return TimerReview(messages, files.read_time_ms, at, end, files.precision_ms, not files.is_used)


class Repeated(NamedTuple):
    """Messages that a start delivers or rolls again: the kind, the file, their number, and a sentence."""

    kind: str
    file: str
    number: int
    detail: str


def find_repeated(opened: OpenedStore) -> Repeated | None:
    """Find the messages that a start at the clock's time delivers or rolls again; None without any."""
    review = review_timers(opened, opened.clock())
    found = [one for one in review.messages if one.state is TimerState.DUPLICATE]
    if not found:
        return None
    kind, file = TIMER_AGAIN, "config/timercheck"
    reason = "the timer's files were saved before what the timer did with them"
    if review.in_database:
        kind, file, reason = TIMELINE_AGAIN, PLACE, f"{PLACE} lacks what the timer did with them"
    return Repeated(
        kind,
        file,
        len(found),
        f"a start delivers or rolls {amount(len(found), 'timer message')} once more, the first at queue offset "
        f"{found[0].queue_offset}: {reason}",
    )


def describe_unfired(opened: OpenedStore) -> tuple[int, str]:
    """Return the number of messages in a timeline that never fired, and a sentence on when they are lost."""
    timeline = read_timeline(opened)
    if timeline is None or timeline.fired_ms is not None or not timeline.entries:
        return 0, ""
    first_ms = min(delivery_ms for delivery_ms, _ in timeline.entries)
    return len(timeline.entries), (
        f"the timeline never fired: of its {amount(len(timeline.entries), 'message')} a start delivers none that was "
        f"due 10 seconds before it or earlier; the first is due at {first_ms} ms"
    )


def messages_by_log(opened: OpenedStore, queue: ConsumeQueue | None) -> list[TimerMessage]:
    """Return the timer messages with their states by the log alone; without a queue those of the log."""
    return list(_Review(opened, NO_FILES).messages(queue))


def messages_found(opened: OpenedStore, queue: ConsumeQueue | None) -> list[tuple[TimerMessage, StoredMessage | None]]:
    """Return the timer messages without a state, and their records, None for a lost one."""
    return _Review(opened, NO_FILES).found(queue)


class _Review:
    """A comparison of the timer queue's records with units and copies."""

    def __init__(self, opened: OpenedStore, files: TimerFiles) -> None:
        self._opened, self._files = opened, files
        # If a record was enqueued twice, its newest unit counts.
        self._rows = {int(offset): row for row, offset in enumerate(files.units["log_offset"])}
        self._reachable = {row for slot in files.live_slots.tolist() for row in files.chain(slot)}
        """Rows of units that slots lead to, for all slots that have not fired."""
        self._names_topic = opened.config.append_topic_for_timer_delete_key
        if self._names_topic is None:
            self._names_topic = not opened.line.deletes_by_unique_key
        self._taken_up = 0
        self._rolls: dict[tuple[tuple[str | None, ...], bool], int] = {}
        self._copies = _copies_by_identity(
            record
            for record in records_with(opened.log.scan(), TIMER_OUT_MS)
            if REAL_TOPIC in record.properties or opened.config.timer_rocks_db_enable is not False
        )

    def found(self, queue: ConsumeQueue | None) -> list[tuple[TimerMessage, StoredMessage | None]]:
        """Return the messages without a state, and their records, None for a lost one.

        Without a queue, as where a simulated start leaves it in a database, they are those of the log.
        """
        log = self._opened.log
        if queue is not None:
            return [(self._message(at, unit, record), record) for at, unit, record in queue_records(log, queue)]
        records = ((one, QueueUnit(one.log_offset, one.size, 0)) for one in records_of_topic(log, TIMER_TOPIC))
        return [(self._message(one.queue_offset, unit, one), one) for one, unit in records]

    def messages(self, queue: ConsumeQueue | None) -> Iterator[TimerMessage]:
        found = self.found(queue)
        self._taken_up = self._find_taken_up(message for message, _ in found)
        deletes = {
            (*message.times_ms, message.deletes)
            for message, record in found
            if record is not None and (message.magic & DELETE if message.magic >= 0 else self._is_past(message))
        }
        for message, record in found:
            if record is not None:
                one = _identity(record), message.deletes is not None
                self._rolls[one] = max(self._rolls.get(one, 0), message.roll_times)
        for message, record in found:
            has_delete = any((*message.times_ms, name) in deletes for name in self._names_in_deletes(message))
            state = self._state(message, record, has_delete=has_delete)
            if self._comes_again(message, state):
                state = TimerState.DUPLICATE
            message.state = state
            yield message

    def _names_in_deletes(self, message: TimerMessage) -> list[str | None]:
        """Return the keys that a delete of this message may hold.

        Both forms count in slots before the read time, as an older broker may have fired those.
        """
        names = [f"{message.topic}+{message.uniq_key}", message.uniq_key]
        if self._files.is_used and message.slot_timestamp_ms < self._files.read_time_ms:
            return names
        return names[:1] if self._names_topic else names[1:]

    def _comes_again(self, message: TimerMessage, state: TimerState) -> bool:
        """Return whether a start reads a message again that has a unit or a copy, and so repeats it."""
        if not self._files.is_used or message.deletes is not None or message.queue_offset < self._taken_up:
            return False
        has_unit = state in (TimerState.PENDING, TimerState.ROLLED) and message.magic >= 0
        return has_unit or state is TimerState.DELIVERED

    def _find_taken_up(self, messages: Iterable[TimerMessage]) -> int:
        """Return the first queue offset that a start reads.

        It is the offset after the last unit's message, or timercheck's without units; at most the master's.
        """
        if self._files.checkpoint is None:
            return 0
        offsets = self._files.units["log_offset"]
        last = next((one.queue_offset for one in messages if len(offsets) and one.log_offset == offsets[-1]), None)
        end = last + 1 if last is not None else self._files.checkpoint.queue_offset
        return min(end, self._files.checkpoint.master_queue_offset)

    def _lacks_unit(self, message: TimerMessage) -> bool:
        """Return whether a message has no unit in the timer log, and no start creates one."""
        return message.magic < 0 and message.queue_offset < self._taken_up

    def _is_past(self, message: TimerMessage) -> bool:
        """Return whether a message without a unit was taken up, as far as files of the timer tell."""
        return self._lacks_unit(message) or not self._files.is_used

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
        has_newer = message.roll_times < self._rolls[_identity(record), message.deletes is not None]
        if (fired and rolls) or (has_newer and not self._files.is_used):
            return TimerState.ROLLED
        if TIMER_DEL_UNIQKEY in record.properties:
            return TimerState.DELETE
        if has_delete and (row is not None or not self._has_copy(message, record)):
            return TimerState.DELETE_ROLLING if rolls else TimerState.DELETED
        if rolls:
            done = TimerState.ROLLED if has_newer else None
        else:
            done = TimerState.DELIVERED if self._has_copy(message, record) else None
        if row is None or fired:
            return done or (TimerState.LOST if fired or self._lacks_unit(message) else TimerState.PENDING)
        if row not in self._reachable:
            return done or TimerState.LOST
        return TimerState.DUPLICATE if done else TimerState.PENDING

    def _has_copy(self, message: TimerMessage, record: StoredMessage) -> bool:
        copies = self._copies.get(_identity(record), [])
        if copies and message.delivered_log_offset < 0:
            message.delivered_log_offset = copies.pop(0)
        return message.delivered_log_offset >= 0


def _copies_by_identity(records: Iterable[StoredMessage]) -> dict[tuple[str | None, ...], list[int]]:
    """Return the log offsets of delivered records by identity."""
    found: dict[tuple[str | None, ...], list[int]] = defaultdict(list)
    for record in records:
        if record.topic != TIMER_TOPIC:
            found[_identity(record)].append(record.log_offset)
    return found


def _identity(record: StoredMessage) -> tuple[str | None, ...]:
    # A message that the timers of a database delivered lacks REAL_TOPIC.
    return record.properties.get(REAL_TOPIC, record.topic), record.uniq_key, record.properties.get(TIMER_OUT_MS)
