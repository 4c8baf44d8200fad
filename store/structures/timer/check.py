"""Check the timer's wheel, log, checkpoint and metrics against each other and against the commit log.

    files     all three or none, a wheel of WHEEL_SIZE bytes; else pending messages are lost, or no broker starts
    wheel     a slot's number follows from its time; a slot that has not fired leads through all its units to the first
    log       a unit has the position of an earlier unit of its slot, and a record of its size in the commit log
    again     a start processes no delivered or rolled message again
    state     timercheck is not ahead of log and queue, as after a truncation of the commit log

Slots that have fired are history: a broker never clears them. Imported only if a store has timer files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from store.errors import StoreError
from store.files.store_reader import StoreReader
from store.formats.derived import is_pre_blank, units_of
from store.formats.queue_unit import UNIT_SIZE
from store.formats.sets import is_in
from store.formats.topics import TIMER_TOPIC
from store.formats.wording import amount, amount_is
from store.structures.checked import CheckedStore
from store.structures.findings import TIMER_STATE, Finding, group_findings
from store.structures.registry import is_of_others
from store.structures.timer.check_log import TimerLogCheck
from store.structures.timer.files import (
    CHECK_SIZE,
    CHECK_USED,
    DELETE,
    METRICS,
    NO_POSITION,
    SLOT_COUNT,
    WHEEL,
    WHEEL_SIZE,
    TimerCheckpoint,
    TimerFiles,
    metrics_fault,
    read_timer_files,
)
from store.structures.timer.findings import TIMER_FILES, TIMER_STALE, TIMER_WHEEL
from store.structures.timer.review import find_repeated
from store.structures.timer.timeline import fires_timeline

_HOUR_MS = 3_600_000
_LAST_MS = 10_000_000_000_000
"""A time in the year 2286, later than any broker's: the limit for copies with new file times."""


def check(store: CheckedStore) -> Iterator[Finding]:
    """Yield the findings of the timer's files."""
    files = store.files
    timer = read_timer_files(store.layout, store.fs, store.config)
    # A store for 4.9 may hold what a timer has left.
    has_timer = not is_of_others(WHEEL, store.line.name)
    if timer.is_used or (has_timer and files.exists(f"consumequeue/{TIMER_TOPIC}")):
        in_database = _in_database(store)
        found = _Check(files, timer, reads_queue=not in_database)
        # A broker that fires from the database leaves timercheck and timermetrics behind.
        unused = {TIMER_STATE} if in_database else set[str]()
        yield from group_findings(one for one in found.run() if one.kind not in unused)
        # Beside a running writer, timercheck lags behind the timer.
        if store.horizon is None and not found.has_lost_part:
            yield from _again_findings(store)


def _in_database(store: CheckedStore) -> bool:
    with suppress(StoreError):
        return fires_timeline(store.config, store.layout, store.fs)
    return False


def _again_findings(store: CheckedStore) -> Iterator[Finding]:
    # An unreadable store has other findings.
    with suppress(StoreError), store.view() as opened:
        if repeated := find_repeated(opened):
            file = store.files.name_of(repeated.file)
            yield Finding(repeated.kind, file, 0, count=repeated.number, detail=repeated.detail)


class _Check:
    """One check.

    reads_queue  False if the timers of a database read the queue of timers, and not the wheel
    """

    def __init__(self, files: StoreReader, timer: TimerFiles, *, reads_queue: bool) -> None:
        self._reads_queue = reads_queue
        self.files, self.timer, self.log = files, timer, TimerLogCheck(files, timer)
        self.has_lost_part = False
        self.wheel_name, self.log_name, self.check_name = (
            files.name_of(name) for name in (timer.wheel_name, "timerlog", "config/timercheck")
        )

    def run(self) -> Iterator[Finding]:
        yield from self._file_findings()
        if self.timer.wheel is not None and self.timer.wheel_size == WHEEL_SIZE:
            yield from self._slot_findings()
        yield from self.log.run()
        yield from self._state_findings()

    def _file_findings(self) -> Iterator[Finding]:
        timer = self.timer
        for name, fault in timer.start_faults():
            yield Finding(TIMER_FILES, self.files.name_of(name), 0, detail=f"{fault}: no broker starts with it")
        places = {
            "timer-wheel-lost": (self.wheel_name, len(timer.units)),
            "timer-check-lost": (self.check_name, 1),
            "timer-log-lost": (self.log_name, len(timer.live_slots)),
        }
        for code, fault in timer.lost_parts((self._queue_end() or 0) if self._reads_queue else 0):
            place, count = places[code]
            self.has_lost_part = True
            yield Finding(TIMER_FILES, place, 0, count=count, detail=fault)

    def _slot_findings(self) -> Iterator[Finding]:
        wheel, used = self.timer.wheel, self.timer.used_slots
        assert wheel is not None
        for detail, wrong in (
            ("a time that belongs into another slot", wheel["time"][used].astype("i8") % SLOT_COUNT != used),
            ("a magic that is not 0", wheel["magic"][used] != 0),
        ):
            rows = np.flatnonzero(wrong)
            if len(rows):
                yield Finding(TIMER_WHEEL, self.wheel_name, int(used[rows[0]]), count=len(rows), detail=detail)
        empty = np.flatnonzero(
            (wheel["time"] == 0)
            & ((wheel["num"] != 0) | (wheel["magic"] != 0) | (wheel["last"] > 0) | (wheel["first"] > 0))
        )
        if len(empty):
            detail = "positions without a time"
            yield Finding(TIMER_WHEEL, self.wheel_name, int(empty[0]), count=len(empty), detail=detail)
        yield from self._last_unit_findings()
        live = self.timer.live_slots
        for slot in live[~self.timer.are_whole(live)].tolist() if self.timer.log_files else ():
            yield from self._live_slot_findings(slot)

    def _last_unit_findings(self) -> Iterator[Finding]:
        """Yield a finding for fired slots whose last position, within the log, has no unit of the slot."""
        timer, wheel = self.timer, self.timer.wheel
        if wheel is None or not len(timer.positions):
            return
        fired = timer.used_slots[~is_in(timer.used_slots, timer.live_slots)]
        last = wheel["last"][fired].astype("i8")
        rows = np.minimum(np.searchsorted(timer.positions, last), len(timer.positions) - 1)
        times = wheel["time"][fired] * timer.precision_ms
        is_there = (timer.positions[rows] == last) & (timer.slot_times_ms[rows] == times)
        wrong = np.flatnonzero(~is_there & (last >= timer.positions[0]))
        if len(wrong):
            detail = f"its last entry, at {int(last[wrong[0]])}, is not of this slot"
            yield Finding(TIMER_WHEEL, self.wheel_name, int(fired[wrong[0]]), count=len(wrong), detail=detail)

    def _live_slot_findings(self, slot: int) -> Iterator[Finding]:
        timer, wheel = self.timer, self.timer.wheel
        assert wheel is not None
        rows = timer.chain(slot)
        first, last, num = (int(wheel[name][slot]) for name in ("first", "last", "num"))
        if not rows:
            yield Finding(TIMER_WHEEL, self.wheel_name, slot, detail=f"its last entry, at {last}, is not of this slot")
            return
        if int(timer.positions[rows[-1]]) != first:
            detail = f"the entries from {last} back end at {int(timer.positions[rows[-1]])}, and not at {first}"
            yield Finding(TIMER_WHEEL, self.wheel_name, slot, detail=detail)
        elif int(timer.units["previous"][rows[-1]]) != NO_POSITION:
            yield Finding(TIMER_WHEEL, self.wheel_name, slot, detail="its first entry points to a previous one")
        count = sum(-1 if int(timer.units["magic"][row]) & DELETE else 1 for row in rows)
        if count != num:
            yield Finding(TIMER_WHEEL, self.wheel_name, slot, detail=f"counts {amount(num, 'message')}, it has {count}")

    def _state_findings(self) -> Iterator[Finding]:
        checkpoint, end = self.timer.checkpoint, self._queue_end()
        if checkpoint is not None:
            # A file without a read time counts as lost.
            for fault in self._checkpoint_faults(checkpoint) if checkpoint.read_time_ms > 0 else ():
                yield Finding(TIMER_STATE, self.check_name, 0, detail=fault)
            if end is not None and checkpoint.queue_offset > end:
                detail = f"read the timer queue up to {checkpoint.queue_offset}, which ends at {end}"
                yield Finding(TIMER_STALE, self.check_name, 0, count=checkpoint.queue_offset - end, detail=detail)
        if self.files.exists(METRICS):
            fault = metrics_fault(bytes(self.files.read(METRICS)))
            if fault:
                yield Finding(TIMER_STATE, self.files.name_of(METRICS), 0, detail=fault)
        elif checkpoint is not None and len(self.timer.units) and not self._is_killed:
            detail = "missing: pending messages are counted from 0"
            yield Finding(TIMER_STATE, self.files.name_of(METRICS), 0, detail=detail)

    @property
    def _is_killed(self) -> bool:
        return self.files.exists("abort")

    def _checkpoint_faults(self, checkpoint: TimerCheckpoint) -> Iterator[str]:
        """Describe each value of timercheck that no broker writes with this timer log."""
        file = self.files.file_at("config/timercheck")
        assert file is not None
        if file.size != CHECK_SIZE or any(bytes(self.files.read(file.path))[CHECK_USED:]):
            yield f"{file.size} bytes, of which a broker writes {CHECK_USED} and {CHECK_SIZE - CHECK_USED} zeros"
        if checkpoint.read_time_ms % self.timer.precision_ms:
            yield f"read time {checkpoint.read_time_ms} ms is the time of no slot"
        # The file is written after its times; one hour allows for different clocks of two machines.
        is_written = file.mtime_ms >= self.timer.units["write_time_ms"].max(initial=0)
        latest_ms = file.mtime_ms + _HOUR_MS if is_written else _LAST_MS
        for name, time_ms in (("read", checkpoint.read_time_ms), ("version", checkpoint.version_timestamp_ms)):
            if time_ms < 0:
                yield f"{name} time {time_ms}: a negative number"
            if time_ms > latest_ms:
                yield f"{name} time {time_ms} ms is later than the file's own, {file.mtime_ms} ms"
        if checkpoint.state_version < 0 or checkpoint.version_counter < 0:
            yield f"version {checkpoint.state_version}, counter {checkpoint.version_counter}: a negative number"
        taken, by_master = checkpoint.queue_offset, checkpoint.master_queue_offset
        on_wheel = self._queue_end_of_units()
        if taken < on_wheel and not self._is_killed:
            again = amount_is(on_wheel - taken, "message")
            yield f"queue offset {taken}, and the log's last entry is of {on_wheel - 1}: {again} processed again"
        if by_master < taken:
            again = amount(taken - by_master, "message")
            yield f"the master's queue offset {by_master} is below {taken}: a start takes up {again} once more"
        if self.timer.log_files:
            flushed, ends = checkpoint.flushed_position, self.log.ends
            is_behind = flushed < ends[0] and not self._is_killed
            if flushed > ends[1] or flushed < 0 or is_behind:
                yield f"flushed up to {flushed}, the log ends at {ends[0]}"

    def _queue_end_of_units(self) -> int:
        """Return the queue offset after the message of the log's last unit.

        0 if the timer queue does not have that message.
        """
        for file in self.files.queue_files(TIMER_TOPIC, 0) if len(self.timer.units) else ():
            units = units_of(self.files.read(file.path))
            found = np.flatnonzero((units["log_offset"] == self.timer.units["log_offset"][-1]) & (units["size"] > 0))
            if len(found):
                return file.number // UNIT_SIZE + int(found[-1]) + 1
        return 0

    def _queue_end(self) -> int | None:
        """Return the next queue offset of the timer queue, by its files; None without files."""
        found = self.files.queue_files(TIMER_TOPIC, 0)
        for file in reversed(found):
            units = units_of(self.files.read(file.path))
            written = np.flatnonzero((units["size"] > 0) & ~is_pre_blank(units))
            if len(written):
                return file.number // UNIT_SIZE + int(written[-1]) + 1
        return 0 if found else None
