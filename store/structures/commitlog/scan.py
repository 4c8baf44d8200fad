"""The scan of the commit log, for reading, recovery, check, rebuild, salvage and Spark.

A scan yields values, in the order of the log:

    Run … Run Blank Run … Run End        a healthy log: a blank leads on into the next segment
    Run … Damage                         bytes that are no record; the caller decides whether to resume

    Run     consecutive records of one segment, as columns (see store.formats.columns), not as objects
    Blank   the segment's rest is unused, the log goes on in the next one
    End     nothing was written here: zeros, the readable end, or too few bytes for another record
    Damage  the fault and its position

A scan can't tell a torn tail from damage; recovery separates them by the bytes after it. Records are checked as in the
broker (CommitLog.checkMessageAndReturnSize, 4.9.8), except that every length is compared with the bytes left before
its use. So a damaged total size allocates nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from store import kernels
from store.errors import DamagedRecord
from store.files import lost_pages
from store.files.read_ahead import AHEAD_WINDOW_BYTES, ReadAhead
from store.files.readable import WINDOW_BYTES
from store.formats.columns import COLUMN_NAMES, Column, DamageReason, ScanOutcome
from store.formats.given import check_flag
from store.formats.message import BLANK_SIZE, MESSAGE_MAGIC_V2
from store.formats.run import Int64Array, Run

# With so many records the calls of Python for each queue and run cost little.
RUN_CAPACITY = 65536 + 64
# Runs grow, as a reader of one message needs only the first run, and builder threads begin with their first run.
# Columns a multiple of 4 KiB apart would share cache lines: 64 more records are 512 bytes.
FIRST_CAPACITY = 512 + 64
_GROWTH = 8
FIRST_WINDOW_BYTES = 1 << 20
_CACHED_BYTES_PER_S = 8e9
"""Pages that arrive more slowly are not in the page cache; cached pages arrive at 30 GB/s and more."""
_V2_MAGIC = MESSAGE_MAGIC_V2.to_bytes(4, "big")
_BEYOND = (
    DamageReason.SIZE_BEYOND_SEGMENT,
    DamageReason.BODY_BEYOND,
    DamageReason.TOPIC_BEYOND,
    DamageReason.PROPERTIES_BEYOND,
)


class Segment(Protocol):
    """The part of a commit-log file that a scan needs; MappedFile has it."""

    path: Path
    file_start: int
    size: int

    @property
    def buffer(self) -> memoryview: ...

    @property
    def readable_position(self) -> int: ...

    def readable_end(self, start: int, stop: int) -> int:
        """Read [start, stop) into memory; return `stop`, or the start of the first unreadable page."""

    def behind_unreadable(self, start: int, stop: int) -> int:
        """Return the start of the first readable page after the unreadable one at `start`, or `stop`."""

    def next_written(self, position: int) -> int:
        """Return the first position at or after this one that may have been written, at most the file's end."""

    def written_end(self) -> int:
        """Return the end of the bytes that may have been written, before the hole at the file's end."""


def written_after(segments: Sequence[Segment], log_offset: int) -> int:
    """Return the bytes between a log offset and the hole at the log's end."""
    return max(segments[-1].file_start + segments[-1].written_end() - log_offset, 0) if segments else 0


class Blank(NamedTuple):
    """The unused rest of a segment; the log goes on in the next one."""

    file_start: int
    path: Path
    position: int
    declared_size: int

    def describe(self) -> str:
        """Return why the log ends here, as a clause for people."""
        return f"the end of the last segment ({self.path.name}, offset {self.position})"


class End(NamedTuple):
    """Zeros, the readable end, or too few bytes for another record."""

    file_start: int
    path: Path
    position: int

    def describe(self) -> str:
        """Return why the log ends here, as a clause for people."""
        return f"the end of what was written ({self.path.name}, offset {self.position})"


class Damage(NamedTuple):
    """Bytes that are no record.

    `size` is the record's total size where that can be trusted (reason LENGTH_MISMATCH), else -1.

    unreadable  positions of the first page that can't be read and of the first one after it that can, (0, 0) without
    """

    file_start: int
    path: Path
    position: int
    reason: DamageReason
    size: int
    unreadable: tuple[int, int] = (0, 0)

    def describe(self) -> str:
        """Return why the log ends here, as a clause for people."""
        return str(DamagedRecord(self.describe_reason(), file=self.path.name, offset=self.position))

    def describe_reason(self) -> str:
        """Describe the damage, without the place of the record."""
        if self.reason != DamageReason.UNREADABLE:
            return self.reason.describe()
        return f"{self.reason.describe()}: bytes {self.unreadable[0]} to {self.unreadable[1]}"


Outcome = Blank | End | Damage
Step = Run | Outcome


@dataclass(frozen=True, slots=True)
class ScanRules:
    """Rules for accepting bytes as a record.

    check_crc  verify body CRCs (a record with a bad one is Damage)
    accept_v2  accept 5.x records with two-byte topic sizes; to a 4.x broker they are damage
    by_place   set each record's log offset to its position, and ignore its log offset field
    cuts_torn  the last record before zeros or damage is Damage if its properties end in a zero byte: a power cut
               kept only a part of it. No CRC covers properties, and no producer's text ends in a zero byte.
    """

    check_crc: bool = False
    accept_v2: bool = True
    by_place: bool = False
    cuts_torn: bool = False

    def __post_init__(self) -> None:
        for name in ("check_crc", "accept_v2", "by_place", "cuts_torn"):
            check_flag(name, getattr(self, name))


DEFAULT_RULES = ScanRules()
VERIFYING = ScanRules(check_crc=True)


def scan_segment(
    segment: Segment,
    position: int = 0,
    limit: int | None = None,
    *,
    rules: ScanRules = DEFAULT_RULES,
    capacity: int = RUN_CAPACITY,
) -> Iterator[Step]:
    """Scan one segment from `position` to `limit` (default: its readable end); the Outcome comes last."""
    limit = segment.readable_position if limit is None else limit
    pages = _PagesAhead(segment, position, limit)
    try:
        yield from _steps(segment, pages, position, rules, capacity)
    finally:
        pages.close()


def _steps(segment: Segment, pages: _PagesAhead, position: int, rules: ScanRules, capacity: int) -> Iterator[Step]:
    """Yield the steps of a scan that begins at `position`."""
    buffer = segment.buffer
    state = np.zeros(8, np.int64)
    room = min(capacity, FIRST_CAPACITY)
    while True:
        # Each run has columns of its own, as other threads may use it.
        array = np.empty((len(COLUMN_NAMES), room), np.int64)
        count = kernels.scan_records(buffer, position, pages.end, rules.accept_v2, rules.check_crc, array, state)
        if pages.were_lost(position):
            continue
        may_be_cut = state[1] != ScanOutcome.FULL and pages.may_cut(int(state[0]), state)
        is_before_damage = state[1] == ScanOutcome.DAMAGE and not may_be_cut
        is_torn = bool(
            rules.cuts_torn and count and _is_torn(buffer, array[:, count - 1], pages.end, is_last=is_before_damage)
        )
        count -= is_torn
        if count:
            misplaced = _put_in_place(array[:, :count], segment.file_start) if rules.by_place else 0
            yield Run(segment.file_start, segment.path, buffer, array, count, misplaced)
            pages.require_kept()
        if is_torn:
            position = int(array[Column.POSITION, count])
            yield Damage(segment.file_start, segment.path, position, DamageReason.TORN_PROPERTIES, -1)
            return
        position = int(state[0])
        if state[1] != ScanOutcome.FULL and not (may_be_cut and pages.read_on(position)):
            yield pages.unreadable(position) if may_be_cut else _outcome(segment, position, state)
            return
        room = min(capacity, room * _GROWTH + 64)


def _is_torn(buffer: memoryview, record: Int64Array, end: int, *, is_last: bool) -> bool:
    """Return whether the record's properties end in a zero byte, and no record follows."""
    stop = int(record[Column.POSITION] + record[Column.SIZE])
    if not record[Column.PROPERTIES_SIZE] or buffer[stop - 1]:
        return False
    return is_last or (stop + BLANK_SIZE <= end and not any(buffer[stop : stop + BLANK_SIZE]))


def _put_in_place(array: Int64Array, file_start: int) -> int:
    """Set each log offset to the record's position; return the number of records that had another."""
    count = array.shape[1]
    if kernels.first_bad_log_offset(array, 0, count, file_start) == count:
        return 0
    places = array[Column.POSITION] + file_start
    misplaced = int(np.count_nonzero(array[Column.LOG_OFFSET] != places))
    array[Column.LOG_OFFSET] = places
    return misplaced


def scan_log(
    segments: Sequence[Segment],
    log_offset: int | None = None,
    *,
    rules: ScanRules = DEFAULT_RULES,
    stop: int | None = None,
) -> Iterator[Step]:
    """Scan the segments from `log_offset` (default: the first byte); a Blank leads into the next segment.

    stop  a log offset: bytes from it on are ignored

    As in a broker, a missing segment in the middle is skipped without notice. The last value is the Outcome at which
    the scan stopped.
    """
    if not segments:
        return
    start = segments[0].file_start if log_offset is None else log_offset
    for segment in segments:
        if segment.file_start + segment.size <= start:
            continue
        position = max(0, start - segment.file_start)
        limit = None if stop is None else min(max(0, stop - segment.file_start), segment.readable_position)
        for step in scan_segment(segment, position, limit, rules=rules):
            yield step
        if not isinstance(step, Blank):
            return


class _PagesAhead:
    """The pages of a segment that were read in before a kernel touches them: [start of the scan, end).

    A kernel treats `end` as the segment's end, so a record that reaches beyond it is read again with more pages.
    Windows begin small, so that a read of one message reads few pages.
    A page may still be lost before it is touched. If only the kernel touched it, the pages end there. If the caller may
    have touched it in a run, that is an error.
    """

    def __init__(self, segment: Segment, position: int, limit: int) -> None:
        self._segment = segment
        self._limit = limit
        self._window = FIRST_WINDOW_BYTES
        self._is_broken = self._is_slow = False
        self._lost_count = lost_pages.count()
        self._ahead: ReadAhead | None = None
        self.end = position
        self._read(position)

    def may_cut(self, position: int, state: Int64Array) -> bool:
        """Return whether more pages could change the kernel's verdict on the bytes at `position`."""
        outcome, reason = int(state[1]), int(state[2])
        if self.end >= self._limit:
            return False
        if outcome != ScanOutcome.DAMAGE:
            return outcome == ScanOutcome.LIMIT or (outcome == ScanOutcome.END and self.end - position < BLANK_SIZE)
        size = int.from_bytes(self._segment.buffer[position : position + 4], "big")
        return reason in _BEYOND and size <= self._limit - position

    def read_on(self, position: int) -> bool:
        """Read more pages for a record at `position`; return False if there are no more."""
        if self._is_broken:
            return False
        if self._ahead is None and self._is_slow:
            self._ahead = ReadAhead.of(self._segment, self.end, self._limit)
        before = self.end
        self._read(position)
        return self.end > before

    def _read(self, position: int) -> None:
        size, read_ahead = self._window, self._ahead
        self._window = min(size * 4, WINDOW_BYTES)
        if read_ahead is not None:
            size = min(size, AHEAD_WINDOW_BYTES)
        stop = min(self._limit, max(position, self.end) + size)
        began = time.perf_counter()
        self.end = self._segment.readable_end(self.end, stop) if read_ahead is None else read_ahead.until(stop)
        self._is_slow = time.perf_counter() - began > size / _CACHED_BYTES_PER_S
        self._is_broken = self.end < stop

    def close(self) -> None:
        """Stop reading ahead."""
        if self._ahead is not None:
            self._ahead.close()

    def were_lost(self, position: int) -> bool:
        """Return whether pages from `position` on were lost meanwhile; if so, set `end` before them."""
        if lost_pages.count() == self._lost_count:
            return False
        start = _address_of(self._segment.buffer)
        end = lost_pages.first_lost(start + position, start + self.end) - start
        if end < position or end == self.end:
            self.require_kept()
            return False
        lost_pages.report(start + end, start + self.end)
        self._lost_count, self.end, self._is_broken = lost_pages.count(), end, True
        return True

    def require_kept(self) -> None:
        """Raise StoreIOError if a page of the segment was lost since the last check."""
        seen = self._lost_count
        if lost_pages.count() != seen:
            buffer = self._segment.buffer
            start = _address_of(buffer)
            lost_pages.require_none_since(seen, start, start + len(buffer))
            self._lost_count = lost_pages.count()

    def unreadable(self, position: int) -> Damage:
        """Return the Damage of a record at `position` that reaches into unreadable pages."""
        behind = self._segment.behind_unreadable(self.end, self._limit)
        segment = self._segment
        return Damage(segment.file_start, segment.path, position, DamageReason.UNREADABLE, -1, (self.end, behind))


def _address_of(buffer: memoryview) -> int:
    return int(np.frombuffer(buffer, np.uint8).ctypes.data)


def _outcome(segment: Segment, position: int, state: Int64Array) -> Outcome:
    outcome = ScanOutcome(int(state[1]))
    if outcome == ScanOutcome.BLANK:
        return Blank(segment.file_start, segment.path, position, int(state[3]))
    if outcome == ScanOutcome.DAMAGE:
        reason = DamageReason(int(state[2]))
        if reason == DamageReason.BAD_MAGIC and segment.buffer[position + 4 : position + 8] == _V2_MAGIC:
            # This magic is unknown only to rules that do not accept V2.
            reason = DamageReason.V2_RECORD
        return Damage(segment.file_start, segment.path, position, reason, int(state[3]))
    return End(segment.file_start, segment.path, position)
