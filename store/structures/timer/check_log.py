"""Check the timer log's units against each other, the wheel's slots and the records.

    files     each begins where the previous one ends; the first at 0 if the commit log still begins at 0
    contents  units, then a blank; a start stops reading at the first other bytes
    units     each has the position of the previous unit in its slot; magic, slot time and topic hash match its record

Source: TimerLog, TimerMessageStore.doEnqueue, recoverAndRevise (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from store.files.store_reader import StoredFile, StoreReader
from store.files.stored_segment import StoredSegment
from store.formats.run import Int64Array, Run
from store.formats.timer import TIMER_BLANK, TIMER_BLANK_MAGIC
from store.formats.wording import amount
from store.structures.commitlog.scan import scan_segment
from store.structures.findings import Finding
from store.structures.timer.expect import UnitFields, compare, confirmed
from store.structures.timer.files import BLANK_SIZE, NO_POSITION, UNIT_SIZE, TimerFiles
from store.structures.timer.findings import TIMER_LOG, TIMER_STALE

_WRITTEN, _MOST_MAGIC = 1, 7
_RECORD_HEAD = 36
"""Bytes of a record up to the end of its log offset field."""

Bytes = npt.NDArray[np.uint8]
Wrong = npt.NDArray[np.bool_]


class TimerLogCheck:
    """The timer log of one store, and its findings."""

    def __init__(self, files: StoreReader, timer: TimerFiles) -> None:
        self.files, self.timer = files, timer
        self.log_files = files.numbered_files("timerlog")
        self.segments = files.segments()

    def run(self) -> Iterator[Finding]:
        yield from self._file_findings()
        for number, file in enumerate(self.log_files):
            yield from self._content_findings(file, is_last=number == len(self.log_files) - 1)
        yield from self._unit_findings()
        yield from self._record_findings()

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the largest valid flushed position: the last unit's end, and the end of a full file."""
        last = self.log_files[-1]
        count = self._unit_count(last)
        end = last.number + count * UNIT_SIZE
        return end, last.number + last.size if count == _capacity(last) else end

    def _find(self, position: int, detail: str, count: int = 1, kind: str = TIMER_LOG) -> Finding:
        return Finding(kind, self.files.name_of("timerlog"), position, count=count, detail=detail)

    def _unit_count(self, file: StoredFile) -> int:
        start, stop = np.searchsorted(self.timer.positions, (file.number, file.number + file.size))
        return int(stop - start)

    def _file_findings(self) -> Iterator[Finding]:
        for first in self.log_files[:1]:
            if first.number and self.segments and not self.segments[0].number:
                yield self._find(0, f"it begins at {first.number}, and the commit log has lost nothing")
        for file, following in pairwise(self.log_files):
            if file.number + file.size < following.number:
                yield self._find(file.number + file.size, f"no file up to {following.number}")

    def _content_findings(self, file: StoredFile, *, is_last: bool) -> Iterator[Finding]:
        """Yield a finding for bytes after a file's last unit that are no blank: a start stops reading there."""
        count, capacity = self._unit_count(file), _capacity(file)
        place = count * UNIT_SIZE
        rest = self.files.read(file.path, place)
        is_written = bool(np.frombuffer(rest, np.uint8).any())
        if count == capacity:
            is_blank = bytes(rest[: TIMER_BLANK.size]) == TIMER_BLANK.pack(len(rest), 0, TIMER_BLANK_MAGIC)
            if not is_blank and (is_written or not is_last):
                yield self._find(file.number + place, "no blank after the last entry of a file: a start ends here")
        elif is_written or not is_last:
            behind = amount(capacity - count, "unit")
            yield self._find(
                file.number + place, f"no entry, and room for {behind} up to the file's end: a start ends here"
            )

    def _unit_findings(self) -> Iterator[Finding]:
        units, times = self.timer.units, self.timer.slot_times_ms
        magic = units["magic"]
        yield from self._wrong_rows((magic & _WRITTEN == 0) | (magic > _MOST_MAGIC), "a magic that no broker writes")
        yield from self._wrong_rows(units["reserved"] != 0, "reserved bytes that are not 0")
        is_between = times % self.timer.precision_ms != 0
        yield from self._wrong_rows(is_between, "write time and delay are the time of no slot")
        yield from self._chain_findings(times)
        yield from self._slot_findings(times)

    def _chain_findings(self, times: Int64Array) -> Iterator[Finding]:
        """Compare the previous position of each unit with the previous unit of its slot."""
        positions, previous = self.timer.positions, self.timer.units["previous"].astype(np.int64)
        before = self.timer.before
        # After the loss of a wheel, slots of the new wheel begin without a previous unit; fired slots are history.
        begins_anew = (previous == NO_POSITION) & (times < self.timer.read_time_ms)
        is_cleaned = (before == NO_POSITION) & (previous >= 0) & (previous < positions[:1].sum())
        rows = np.flatnonzero((previous != before) & ~begins_anew & ~is_cleaned)
        if len(rows):
            row = int(rows[0])
            detail = f"points to the entry at {int(previous[row])} as the previous one, which is at {int(before[row])}"
            yield self._find(int(positions[row]), detail, len(rows))

    def _slot_findings(self, times: Int64Array) -> Iterator[Finding]:
        """Yield a finding for units that have not fired, and that their slot does not lead to."""
        timer, wheel = self.timer, self.timer.wheel
        if wheel is None or not len(wheel):
            return
        slots = times // timer.precision_ms % len(wheel)
        leads = (wheel["time"][slots] * timer.precision_ms == times) & (wheel["last"][slots] >= timer.positions)
        rows = np.flatnonzero((times >= timer.read_time_ms) & ~leads)
        if len(rows):
            detail = f"the slot of {int(times[rows[0]])} does not lead to it: its message is never delivered"
            yield self._find(int(timer.positions[rows[0]]), detail, len(rows))

    def _wrong_rows(self, wrong: Wrong, detail: str) -> Iterator[Finding]:
        rows = np.flatnonzero(wrong)
        if len(rows):
            yield self._find(int(self.timer.positions[rows[0]]), detail, len(rows))

    def _record_findings(self) -> Iterator[Finding]:
        """Yield findings for units without a record, or with other values than their record."""
        start = self.segments[0].number if self.segments else 0
        offsets, fields, order = self.timer.units["log_offset"].astype(np.int64), *self._fields_by_offset()
        wrong = offsets >= (self.segments[-1].number + self.segments[-1].size if self.segments else start)
        for segment in self.segments:
            rows = fields.between(segment.number, segment.number + segment.size)
            doubtful = np.sort(order[rows][~self._confirmed(segment, fields.part(rows))])
            if len(doubtful):
                data = self.files.read(segment.path)
                at, sizes = offsets[doubtful] - segment.number, self.timer.units["record_size"][doubtful]
                found = _are_records(np.frombuffer(data, np.uint8), at, sizes, offsets[doubtful])
                wrong[doubtful] = ~found
                yield from self._said_otherwise(segment, data, doubtful[found])
        rows_of_none = np.flatnonzero(wrong & (offsets >= start))
        if len(rows_of_none):
            row = int(rows_of_none[0])
            detail = f"no record of {int(self.timer.units['record_size'][row])} bytes is at log offset {offsets[row]}"
            yield self._find(int(self.timer.positions[row]), detail, len(rows_of_none), TIMER_STALE)

    def _fields_by_offset(self) -> tuple[UnitFields, Int64Array]:
        """Return the units' fields sorted by log offset, and each unit's row in the timer log."""
        units, times = self.timer.units, self.timer.slot_times_ms
        columns = units["log_offset"], units["record_size"], times, units["magic"], units["topic_hash"]
        order = np.argsort(units["log_offset"].astype(np.int64), kind="stable")
        return UnitFields(*(column.astype(np.int64)[order] for column in columns)), order

    def _confirmed(self, segment: StoredFile, fields: UnitFields) -> Wrong:
        """Mark the units that match the records of a segment."""
        found = np.zeros(len(fields.log_offset), np.bool_)
        if len(found):
            for step in scan_segment(StoredSegment(self.files, segment)):
                if isinstance(step, Run):
                    rows = fields.between(step.start, step.end)
                    found[rows] = confirmed(step, fields.part(rows))
        return found

    def _said_otherwise(self, segment: StoredFile, data: memoryview, rows: Int64Array) -> Iterator[Finding]:
        """Yield a finding for each unit whose slot, delete mark or topic hash contradicts its record."""
        units = self.timer.units
        for row in rows.tolist():
            at, size = int(units["log_offset"][row]) - segment.number, int(units["record_size"][row])
            time_ms, magic, topic_hash = (
                int(column[row]) for column in (self.timer.slot_times_ms, units["magic"], units["topic_hash"])
            )
            record = bytes(data[at : at + size])
            fault = compare(record, time_ms, magic, topic_hash, self.timer.precision_ms)
            if fault:
                yield self._find(int(self.timer.positions[row]), fault)


def _capacity(file: StoredFile) -> int:
    return max(0, file.size - BLANK_SIZE) // UNIT_SIZE


def _are_records(data: Bytes, at: Int64Array, sizes: Int64Array, places: Int64Array) -> Wrong:
    """Mark the positions where a record with this size and this log offset field begins."""
    inside = (at >= 0) & (at + _RECORD_HEAD <= len(data))
    heads = data[np.where(inside, at, 0)[:, None] + np.arange(_RECORD_HEAD)]
    found = np.ascontiguousarray(heads[:, :4]).view(">i4").reshape(-1)
    named = np.ascontiguousarray(heads[:, 28:36]).view(">i8").reshape(-1)
    return np.asarray(inside & (found == sizes) & (named == places))
