"""Check the timer's wheel, log, checkpoint and metrics against each other and against the commit log.

    files     all three or none, a wheel of the one length; else pending messages are lost, or no broker starts
    wheel     a slot is where its time puts it; a slot that has not fired leads through all of its units to its first
    log       a unit names an earlier one of its slot, and a record of its size in the commit log
    state     timercheck is not ahead of log and queue; a truncation of the commit log leaves it so

Slots that have fired are history: a broker never clears them. Imported only where a store has timer files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from store.checking.findings import (
    TIMER_FILES,
    TIMER_LOG,
    TIMER_STALE,
    TIMER_STATE,
    TIMER_WHEEL,
    Finding,
    group_findings,
)
from store.disk.filesystem import Filesystem
from store.disk.store_reader import StoreReader
from store.five.timer.files import DELETE, NO_POSITION, SLOT_COUNT, WHEEL_SIZE, TimerFiles, read_timer_files
from store.formats.derived import is_pre_blank, units_of
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array
from store.formats.topics import TIMER_TOPIC
from store.formats.wording import amount
from store.layout import StoreLayout

METRICS = "config/timermetrics"

Bytes = npt.NDArray[np.uint8]


def check_timer(files: StoreReader) -> Iterator[Finding]:
    """Yield the findings of the timer's files."""
    timer = read_timer_files(StoreLayout(Path(files.address)), Filesystem())
    if timer.is_used or files.exists(f"consumequeue/{TIMER_TOPIC}"):
        yield from group_findings(_Check(files, timer).run())


class _Check:
    def __init__(self, files: StoreReader, timer: TimerFiles) -> None:
        self.files, self.timer = files, timer
        self.wheel_name, self.log_name, self.check_name = (
            files.name_of(name) for name in ("timerwheel", "timerlog", "config/timercheck")
        )

    def run(self) -> Iterator[Finding]:
        yield from self._file_findings()
        if self.timer.wheel is not None and self.timer.wheel_size == WHEEL_SIZE:
            yield from self._slot_findings()
        yield from self._chain_findings()
        yield from self._record_findings()
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
        for code, fault in timer.lost_parts(self._queue_end() or 0):
            place, count = places[code]
            yield Finding(TIMER_FILES, place, 0, count=count, detail=fault)
        if timer.checkpoint is not None and timer.is_used and timer.read_time_ms <= 0 and not self._queue_end():
            yield Finding(TIMER_STATE, self.check_name, 0, detail="no read time")

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
            (wheel["time"] == 0) & ((wheel["num"] != 0) | (wheel["last"] > 0) | (wheel["first"] > 0))
        )
        if len(empty):
            detail = "positions without a time"
            yield Finding(TIMER_WHEEL, self.wheel_name, int(empty[0]), count=len(empty), detail=detail)
        for slot in self.timer.live_slots.tolist() if self.timer.log_files else ():
            yield from self._live_slot_findings(slot)

    def _live_slot_findings(self, slot: int) -> Iterator[Finding]:
        timer, wheel = self.timer, self.timer.wheel
        assert wheel is not None
        rows = timer.chain(slot)
        first, last, num = (int(wheel[name][slot]) for name in ("first", "last", "num"))
        if not rows:
            yield Finding(TIMER_WHEEL, self.wheel_name, slot, detail=f"its last unit, at {last}, is not of this slot")
            return
        if int(timer.positions[rows[-1]]) != first:
            detail = f"the units from {last} back end at {int(timer.positions[rows[-1]])}, and not at {first}"
            yield Finding(TIMER_WHEEL, self.wheel_name, slot, detail=detail)
        elif int(timer.units["previous"][rows[-1]]) != NO_POSITION:
            yield Finding(TIMER_WHEEL, self.wheel_name, slot, detail="its first unit names one before it")
        count = sum(-1 if int(timer.units["magic"][row]) & DELETE else 1 for row in rows)
        if count != num:
            yield Finding(
                TIMER_WHEEL, self.wheel_name, slot, detail=f"counts {amount(num, 'message')}, its units are {count}"
            )

    def _chain_findings(self) -> Iterator[Finding]:
        timer = self.timer
        previous = timer.units["previous"].astype("i8")
        wrong = np.flatnonzero((previous >= timer.positions) | (previous < NO_POSITION))
        if len(wrong):
            detail = f"the unit before it is named at {int(previous[wrong[0]])}"
            yield Finding(TIMER_LOG, self.log_name, int(timer.positions[wrong[0]]), count=len(wrong), detail=detail)
        if timer.checkpoint is None or not timer.log_files:
            return
        end = int(timer.positions[-1]) + 52 if len(timer.positions) else 0
        # The rest of a file behind its last unit counts as written when the next file begins.
        if timer.checkpoint.flushed_position > end + max(timer.log_files.values(), default=0):
            detail = f"flushed up to {timer.checkpoint.flushed_position}, the log ends at {end}"
            yield Finding(TIMER_STATE, self.check_name, 0, detail=detail)

    def _record_findings(self) -> Iterator[Finding]:
        """Units whose record the log has not, though it begins before them."""
        segments = self.files.segments()
        start = segments[0].number if segments else 0
        offsets = self.timer.units["log_offset"].astype("i8")
        sizes = self.timer.units["record_size"].astype("i8")
        wrong = offsets >= (segments[-1].number + segments[-1].size if segments else 0)
        for segment in segments:
            rows = np.flatnonzero((offsets >= segment.number) & (offsets < segment.number + segment.size))
            if len(rows):
                data = np.frombuffer(self.files.read(segment.path), np.uint8)
                wrong[rows] = ~_are_records(data, offsets[rows] - segment.number, sizes[rows], offsets[rows])
        rows = np.flatnonzero(wrong & (offsets >= start))
        if len(rows):
            detail = f"no record of {int(sizes[rows[0]])} bytes is at log offset {int(offsets[rows[0]])}"
            place = int(self.timer.positions[rows[0]])
            yield Finding(TIMER_STALE, self.log_name, place, count=len(rows), detail=detail)

    def _state_findings(self) -> Iterator[Finding]:
        checkpoint, end = self.timer.checkpoint, self._queue_end()
        if checkpoint is None:
            return
        if end is not None and checkpoint.queue_offset > end:
            detail = f"read the timer queue up to {checkpoint.queue_offset}, which ends at {end}"
            yield Finding(TIMER_STALE, self.check_name, 0, count=checkpoint.queue_offset - end, detail=detail)
        if not self.files.exists(METRICS) and len(self.timer.units) and not self.files.exists("abort"):
            detail = "missing: pending messages are counted from 0"
            yield Finding(TIMER_STATE, self.files.name_of(METRICS), 0, detail=detail)
        if self.files.exists(METRICS):
            try:
                json.loads(bytes(self.files.read(METRICS)).decode())["timingCount"].items()
            except (ValueError, KeyError, TypeError, AttributeError):
                yield Finding(TIMER_STATE, self.files.name_of(METRICS), 0, detail="no table of counts")

    def _queue_end(self) -> int | None:
        """The next queue offset of the timer queue, by its files; None without files."""
        found = self.files.queue_files(TIMER_TOPIC, 0)
        for file in reversed(found):
            units = units_of(self.files.read(file.path))
            written = np.flatnonzero((units["size"] > 0) & ~is_pre_blank(units))
            if len(written):
                return file.number // UNIT_SIZE + int(written[-1]) + 1
        return 0 if found else None


def _are_records(data: Bytes, at: Int64Array, sizes: Int64Array, places: Int64Array) -> npt.NDArray[np.bool_]:
    """Whether records of these sizes, that name these places, begin at these positions."""
    inside = (at >= 0) & (at + 36 <= len(data))
    heads = data[np.where(inside, at, 0)[:, None] + np.arange(36)]
    found = np.ascontiguousarray(heads[:, :4]).view(">i4").reshape(-1)
    named = np.ascontiguousarray(heads[:, 28:36]).view(">i8").reshape(-1)
    return np.asarray(inside & (found == sizes) & (named == places))
