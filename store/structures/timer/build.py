"""Rebuild the timer's wheel, log and checkpoint from the messages of rmq_sys_wheel_timer.

    record of the timer queue                      its unit
    a newer record of the same message exists      a rolling unit in a slot that has fired
    copied before it was due, and not due          the same
    delivered, or deleted in its slot              in the slot of its time, which has fired
    due, but neither delivered nor deleted         in the next slot to fire: delivered late, and not lost
    not due                                        in the slot of its time; beyond the roll window, a rolling unit

The read time is that of timercheck, else the latest store time of the timer's own records. It is past the slot of each
delivered message: a timercheck that was saved before a delivery would repeat it. A unit's write time is its
record's store time, as the time of the first write is stored nowhere else. So the bytes differ from a broker's, but
deliveries do not. The offsets in timercheck are set to the end of the timer queue, as each of its messages has a unit.

If a message database holds the timers (5.4 and later), it is rebuilt instead. A wheel beside it keeps the messages that
are on it: a broker fires those too.

Source: TimerMessageStore.doEnqueue, TimerWheel.putSlot, TimerLog.append (5.3.3).
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from store.change.actions import Action, Publish, Remove
from store.change.change import AnyChange, Change, PlanReport
from store.config import StoreConfig
from store.formats.java import string_hash
from store.formats.timer import TIMER_BLANK, TIMER_BLANK_MAGIC, TIMER_CHECK
from store.formats.topics import TIMER_TOPIC
from store.layout import segment_name
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.timer.files import (
    BLANK_SIZE,
    DELETE,
    METRICS,
    NO_POSITION,
    ROLL,
    SLOT_COUNT,
    SLOT_DTYPE,
    UNIT_DTYPE,
    UNIT_SIZE,
    WHEEL,
    TimerCheckpoint,
    TimerFiles,
    metrics_fault,
    read_timer_files,
    snapshots_of,
)
from store.structures.timer.message import TimerMessage, TimerState
from store.structures.timer.review import messages_by_log
from store.structures.timer.timeline import fires_timeline
from store.structures.timer.timeline_build import plan_message_database

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore

ROLL_WINDOW_SLOTS = 172_800
_CHECK_SIZE = 4096
PLAIN = 1
NO_TIMES = "timercheck and checkpoint hold no time: the timer continues at the time of its newest message"
Identity = tuple[str | None, str | None, int]


@dataclass(slots=True)
class _Unit:
    """One unit to write: its slot's time, its magic, its write time and its record."""

    slot_ms: int
    magic: int
    write_ms: int
    message: TimerMessage


@dataclass
class TimerPlan(PlanReport):
    """The number of messages on a new wheel, and its read time."""

    message_count: int
    read_time_ms: int


def plan_timer_rebuild(
    opened: OpenedStore,
    *,
    roll_window_slots: int = ROLL_WINDOW_SLOTS,
    config: StoreConfig | None = None,
) -> Change[TimerPlan]:
    """Return the Change that replaces wheel, log and timercheck by new ones, built from the commit log.

    If a message database holds the timers, the Change replaces the database too.

    config  has the size of log files and the milliseconds per slot; None for that of the store

    BadRequest without the package that opens the database.
    """
    opened.queues.recover()
    config = config or opened.config
    files = read_timer_files(opened.layout, opened.fs, config)
    assert opened.overlay is not None
    in_database = fires_timeline(config, opened.layout, opened.fs)
    units = _units_of_wheel(opened, files, roll_window_slots, in_database=in_database)
    read_ms = _read_time(opened, files, units)
    report = TimerPlan(len(units), read_ms)
    change = Change("timer rebuild", opened.layout.root, opened.fs, report=report, staging=opened.overlay.folder)
    if in_database:
        database = plan_message_database(opened)
        report.message_count += database.report.timer_count
        change.actions, change.remarks = database.actions, database.remarks
    if not (units or files.is_used):
        if not in_database:
            change.remarks.append("the store has no timers: nothing is built, as the files would make it one of 5.x")
        return change
    _Writer(opened, config, files, change).write(units, read_ms, _end_of_queue(opened, files, units, in_database))
    if _lacks_metrics(opened):
        data = _metrics_of(units, read_ms)
        change.publish_bytes(opened.layout.root / METRICS, data, "counted from the timer queue")
    if files.precision_ms != StoreConfig().timer_precision_ms:
        value = files.precision_ms
        change.remarks.append(f"a slot of timerwheel has {value} ms: a broker needs timerPrecisionMs={value}")
    if files.read_time_ms <= 0 and not opened.checkpoint.is_whole:
        change.remarks.append(NO_TIMES)
    return change


def shorten_wheel(opened: OpenedStore) -> list[Action]:
    """Return the actions that rebuild wheel, log and timercheck of messages before the log's end."""
    assert opened.overlay is not None
    files = read_timer_files(opened.layout, opened.fs, opened.config)
    in_database = fires_timeline(opened.config, opened.layout, opened.fs)
    units = _units_of_wheel(opened, files, ROLL_WINDOW_SLOTS, in_database=in_database)
    change = Change[PlanReport]("timer", opened.layout.root, opened.fs, staging=opened.overlay.folder)
    read_ms, end = _read_time(opened, files, units), _end_of_queue(opened, files, units, in_database)
    _Writer(opened, opened.config, files, change).write(units, read_ms, end)
    return change.actions


def _units_of_wheel(
    opened: OpenedStore, files: TimerFiles, roll_window_slots: int, *, in_database: bool
) -> list[_Unit]:
    """Return the units of all messages; if a database has the timers, of those that are on the wheel."""
    units = _Plan(opened, files, roll_window_slots).units(opened.queues.find(TIMER_TOPIC, 0))
    on_wheel = set(files.units["log_offset"].tolist()) if in_database else ()
    return [unit for unit in units if not in_database or unit.message.log_offset in on_wheel]


def _end_of_queue(opened: OpenedStore, files: TimerFiles, units: list[_Unit], in_database: bool) -> int:
    """Return the next queue offset of the wheel; a database may have read more."""
    end = max([opened.max_offset(TIMER_TOPIC, 0), *(unit.message.queue_offset + 1 for unit in units[-1:])])
    return min(end, files.checkpoint.queue_offset if files.checkpoint is not None else 0) if in_database else end


def _lacks_metrics(opened: OpenedStore) -> bool:
    path = opened.layout.root / METRICS
    return not opened.fs.exists(path) or bool(metrics_fault(opened.fs.read_file(path)))


def _metrics_of(units: list[_Unit], read_ms: int) -> bytes:
    """Return the content of timermetrics, the counts of pending messages by topic."""
    counts: Counter[str] = Counter()
    for unit in units:
        if unit.slot_ms >= read_ms:
            # A broker subtracts 1 for a delete.
            counts[unit.message.topic or ""] += -1 if unit.magic & DELETE else 1
    table = {topic: {"count": count, "timeStamp": read_ms} for topic, count in sorted(counts.items())}
    version = {"counter": 1, "stateVersion": 0, "timestamp": read_ms}
    document = {"dataVersion": version, "timingCount": table}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _read_time(opened: OpenedStore, files: TimerFiles, units: list[_Unit]) -> int:
    """Return the time of the next slot to fire."""
    read_ms = files.read_time_ms
    if read_ms <= 0:
        read_ms = max([opened.checkpoint.physic_ms, *(unit.write_ms for unit in units)])
    delivered = [unit.message for unit in units if unit.message.state is TimerState.DELIVERED]
    fired = [one.deliver_timestamp_ms + files.precision_ms for one in delivered if _has_fired(opened, one, read_ms)]
    return max([read_ms, *fired]) // files.precision_ms * files.precision_ms


def _has_fired(opened: OpenedStore, delivered: TimerMessage, read_ms: int) -> bool:
    """Return whether the timer delivered a message that was due at `read_ms` or later.

    A copy from before that time is not the timer's.
    """
    if delivered.deliver_timestamp_ms < read_ms:
        return False
    copy = opened.log.lookup(delivered.delivered_log_offset)
    return copy is not None and delivered.deliver_timestamp_ms <= copy.store_timestamp_ms


class _Plan:
    """The slot and the magic of each record's unit."""

    def __init__(self, opened: OpenedStore, files: TimerFiles, roll_window_slots: int) -> None:
        self._opened, self._precision = opened, files.precision_ms
        self._window_ms = roll_window_slots * files.precision_ms
        self._files = files

    def units(self, queue: ConsumeQueue | None) -> list[_Unit]:
        """Return the units in the order of the timer queue; records that the log lost get none."""
        messages = [one for one in messages_by_log(self._opened, queue) if one.deliver_timestamp_ms >= 0]
        units = [_Unit(one.deliver_timestamp_ms, PLAIN, one.store_timestamp_ms, one) for one in messages]
        read_ms = _read_time(self._opened, self._files, units)
        delivered = {_identity(one) for one in messages if one.state is TimerState.DELIVERED}
        for unit in units:
            one = unit.message
            is_done = one.state in (TimerState.DELETE, TimerState.DELETED) or _identity(one) in delivered
            self._place(unit, read_ms, is_done=is_done)
            unit.magic |= DELETE if one.deletes is not None else 0
        return units

    def _place(self, unit: _Unit, read_ms: int, *, is_done: bool) -> None:
        is_repeated = unit.message.state is TimerState.DELIVERED and unit.slot_ms >= read_ms
        if unit.message.state is TimerState.ROLLED or is_repeated:
            unit.slot_ms, unit.magic = min(unit.slot_ms, read_ms - self._precision), PLAIN | ROLL
            return
        if unit.slot_ms < read_ms:
            unit.slot_ms = unit.slot_ms if is_done else read_ms
            return
        write_ms = max(unit.write_ms, read_ms)
        left_ms = unit.slot_ms - write_ms
        if left_ms >= self._window_ms:
            step = self._window_ms // 2 if left_ms - self._window_ms < self._window_ms // 3 else self._window_ms
            unit.slot_ms, unit.magic = (write_ms + step) // self._precision * self._precision, PLAIN | ROLL


def _identity(message: TimerMessage) -> Identity:
    return message.topic, message.uniq_key, message.deliver_timestamp_ms


class _Writer:
    """Stages a wheel, log files and timercheck with these units."""

    def __init__(self, opened: OpenedStore, config: StoreConfig, files: TimerFiles, change: AnyChange) -> None:
        self._opened, self._files, self._change = opened, files, change
        self._file_size = config.mapped_file_size_timer_log
        self._per_file = max(1, (self._file_size - BLANK_SIZE) // UNIT_SIZE)

    def write(self, units: list[_Unit], read_ms: int, queue_end: int) -> None:
        """Stage wheel, log and timercheck; remove old log files without a replacement."""
        wheel, log = np.zeros(SLOT_COUNT, SLOT_DTYPE), np.zeros(len(units), UNIT_DTYPE)
        for row, unit in enumerate(units):
            log[row] = self._add(wheel, unit, self._position(row))
        root, change = self._opened.layout.root, self._change
        names = {self._write_file(log, number) for number in range(-(-len(units) // self._per_file))}
        for path in self._files.log_files:
            if path.name not in names:
                change.actions.append(Remove(path, "replaced by what the log holds"))
        for name in snapshots_of(self._opened.layout, self._opened.fs):
            change.actions.append(Remove(root / name, "the snapshot of an older wheel"))
        change.publish_bytes(root / WHEEL, wheel.tobytes(), "built from the timer queue")
        end = self._position(len(units) - 1) + UNIT_SIZE if units else 0
        known = self._files.checkpoint or TimerCheckpoint()
        version = known.state_version, known.version_timestamp_ms, known.version_counter
        page = TIMER_CHECK.pack(read_ms, end, queue_end, queue_end, *version)
        place = self._opened.layout.config / "timercheck"
        change.publish_bytes(place, page.ljust(_CHECK_SIZE, b"\0"), "every message of the timer queue has an entry")

    def _position(self, row: int) -> int:
        return row // self._per_file * self._file_size + row % self._per_file * UNIT_SIZE

    def _add(self, wheel: np.ndarray, unit: _Unit, position: int) -> tuple[int, ...]:
        """Add a unit to its slot as the newest; return the unit's fields."""
        time = unit.slot_ms // self._files.precision_ms
        slot = wheel[time % SLOT_COUNT]
        is_new = int(slot["time"]) != time
        previous = NO_POSITION if is_new else int(slot["last"])
        first = position if is_new else int(slot["first"])
        count = (0 if is_new else int(slot["num"])) + (-1 if unit.magic & DELETE else 1)
        wheel[time % SLOT_COUNT] = (time, first, position, count, 0)
        message = unit.message
        slot_ms = time * self._files.precision_ms
        topic_hash = string_hash(message.topic or "")
        fields = (UNIT_SIZE, previous, unit.magic, unit.write_ms, slot_ms - unit.write_ms)
        return (*fields, message.log_offset, message.size, topic_hash, 0)

    def _write_file(self, log: np.ndarray, number: int) -> str:
        """Stage one file of the log, and return its name; a full file before the last unit's ends in a blank."""
        fs, change = self._opened.fs, self._change
        assert change.staging is not None
        name, piece = segment_name(number * self._file_size), log[number * self._per_file :][: self._per_file]
        staged = change.staging / "timerlog" / name
        fs.make_folder(staged.parent)
        file = fs.create_file(staged, self._file_size, reserved=0)
        fs.write(file, 0, piece.tobytes())
        if len(piece) == self._per_file and (number + 1) * self._per_file < len(log):
            end = len(piece) * UNIT_SIZE
            fs.write(file, end, TIMER_BLANK.pack(self._file_size - end, 0, TIMER_BLANK_MAGIC))
        place = self._opened.layout.root / "timerlog" / name
        change.actions.append(Publish(place, staged, "built from the timer queue"))
        return name
