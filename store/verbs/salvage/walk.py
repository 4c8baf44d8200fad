"""The walk that salvages one file.

    1. the file's start in the log is its name, unless none of its first records agrees (a swapped or renamed file)
    2. records are scanned with CRC
    3. after bytes that are no record every position with a magic is tried, in order:
         the record has this log offset                     taken; a bad body is graded body-crc, a torn one is kept
                                                            as a head
         a whole record has another log offset, inside of
         the hole of the log around it                      taken: bytes were inserted before it, or removed
         anything else                                      skipped: a copy inside a body, a leftover
    4. the walk continues after a taken record

A record inside the body of another is not found if the outer record is whole: the walk skips its body.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from store.formats.columns import DamageReason
from store.formats.message import RECORD_MIN_SIZE
from store.formats.run import Run
from store.structures.commitlog.resync import MAGIC, find_record
from store.structures.commitlog.scan import VERIFYING, Blank, Damage, End, ScanRules, scan_segment
from store.structures.commitlog.slices import Window
from store.verbs.salvage.grade import BlankEnd, Grade, Piece, SalvagedRun, Skipped, TornRecord, stretches

# Segment sizes, and so their starts, are whole pages; a start computed from a record inside a body mostly is not.
SEGMENT_ALIGNMENT = 4096
_SAMPLE_RECORDS = 64
_NO_CRC = ScanRules(check_crc=False)


@dataclass(frozen=True, slots=True)
class Source:
    """One file to salvage.

    stop   position after its last non-zero byte
    start  the log offset in its name, -1 without one
    limit  log offset at which its segment ends, if the segment is known to be longer than the file
    """

    name: str
    window: Window
    stop: int
    start: int = -1
    limit: int = 0


def find_start(source: Source) -> int:
    """Find the log offset of the file's first byte; -1 if neither records nor the name have it (step 1)."""
    starts: list[int] = []
    for at in _magic_places(source.window, 0, source.stop):
        run = _record_at(source.window, at, VERIFYING)
        if isinstance(run, Run):
            starts.append(int(run.columns.log_offset[0]) - at)
            if len(starts) >= _SAMPLE_RECORDS:
                break
    likely = [start for start in starts if start >= 0 and not start % SEGMENT_ALIGNMENT]
    if source.start in likely or not likely:
        return source.start
    return max(likely, key=likely.count)


def walk_file(source: Source, start: int) -> Iterator[Piece]:
    """Yield the pieces of a file whose first byte has log offset `start`, in order of position."""
    return _Walk(source, start).pieces()


@dataclass(frozen=True, slots=True)
class _Resumed:
    """Torn records, a record with a bad body, and the position where the walk continues."""

    heads: list[TornRecord]
    taken: SalvagedRun | None
    position: int


class _Walk:
    """The walk over one file. `shift` is added to its start after inserted (negative) or removed bytes."""

    def __init__(self, source: Source, start: int) -> None:
        self._source = source
        self._start = start
        self._shift = 0
        self._end = start
        """Log offset after the last record that was taken."""

    def pieces(self) -> Iterator[Piece]:
        position, stop = 0, self._source.stop
        while position < stop:
            last: SalvagedRun | None = None
            for step in scan_segment(self._window(), position, rules=VERIFYING):
                if isinstance(step, Run):
                    if last is not None:
                        yield last
                    *before, last = self._graded(step)
                    yield from before
                    position = _end_of(step)
            is_over = position >= stop or (isinstance(step, Blank) and self._is_last_blank(step))
            inside = self._next_inside(last) if last is not None and isinstance(step, Damage) else -1
            shift, resumed = self._shift, None
            if inside < 0 and not is_over:
                resumed = self._resume(position)
            if last is not None:
                # If the log's next record is lost, or its magic is in place, bytes were inserted into that record.
                follows = resumed is not None and self._start + self._shift + resumed.position == last.run.end
                inserted = (
                    self._shift < shift
                    and follows
                    and position not in _magic_places(self._window(), position, position + 1)
                )
                yield from _doubted(last, inside >= 0, inserted)
            if is_over:
                if isinstance(step, Blank):
                    offset = self._start + shift + step.position
                    yield BlankEnd(self._source.name, step.position, offset, step.declared_size)
                return
            if resumed is None:
                position = inside
                continue
            yield from resumed.heads
            if resumed.position > position:
                log_offset = self._start + shift + position
                yield Skipped(self._source.name, position, resumed.position, log_offset, _reason(step))
            position = resumed.position
            if resumed.taken is not None:
                yield resumed.taken
                position = _end_of(resumed.taken.run)

    def _window(self) -> Window:
        """Return the file's bytes with their start in the log."""
        return replace(self._source.window, file_start=self._start + self._shift)

    def _is_last_blank(self, blank: Blank) -> bool:
        """Return whether a blank reaches the end of the file or of its segment. Other blanks are damage.

        Zeros may follow the segment's end in a file that got longer.
        """
        if blank.declared_size == self._source.window.size - blank.position:
            return True
        limit = self._source.limit or self._start + self._source.window.size
        in_segment = limit - self._start - self._shift - blank.position
        return blank.declared_size == in_segment and self._source.stop <= blank.position + in_segment

    def _graded(self, run: Run) -> Iterator[SalvagedRun]:
        """Yield the records of a run, split at each change of the shift.

        If whole records were removed or inserted, all later records of a run are shifted.
        """
        shifts = run.columns.log_offset - run.columns.position - self._start
        parts = list(stretches(shifts))
        for number, (first, stop) in enumerate(parts):
            part, shift = run.part(first, stop), int(shifts[first])
            comes_back = number + 1 < len(parts) and int(shifts[parts[number + 1][0]]) == self._shift
            if shift != self._shift and not comes_back and self._is_in_order(part):
                self._shift = shift
            placed = replace(part, file_start=self._start + self._shift)
            self._end = placed.end
            if shift == self._shift:
                yield SalvagedRun(self._source.name, placed, Grade.CERTAIN)
            else:
                yield SalvagedRun(self._source.name, placed, Grade.PARTIAL, "the record names another log offset")

    def _is_in_order(self, run: Run) -> bool:
        """Return whether the records' log offsets are between the last record and the segment's end."""
        named, sizes = run.columns.log_offset, run.columns.size
        return self._end <= int(named[0]) and int(named[-1] + sizes[-1]) <= self._log_limit()

    def _resume(self, position: int) -> _Resumed:
        """Find the next record after bytes that are no record (step 3)."""
        stop, next_place = self._source.stop, self._next_record(position + 1)
        heads: list[TornRecord] = []
        for at in _magic_places(self._window(), position, stop if next_place < 0 else next_place + 1):
            found = self._try(at, next_place)
            if isinstance(found, TornRecord):
                heads.append(found)
            elif isinstance(found, SalvagedRun):
                return _Resumed(heads, found, at)
            elif found is not None:
                self._shift = found - (self._start + at)
                return _Resumed(heads, None, at)
        return _Resumed(heads, None, next_place if next_place >= 0 else stop)

    def _next_inside(self, taken: SalvagedRun) -> int:
        """Return the position of the next record inside the last one, cut by a removal; -1 without one."""
        columns = taken.run.columns
        behind_body = int(columns.body_position[-1] + columns.body_size[-1])
        for at in _magic_places(self._window(), behind_body, _end_of(taken.run)):
            step = _record_at(self._window(), at, VERIFYING)
            if isinstance(step, Run) and self._is_in_order(step):
                self._shift = int(step.columns.log_offset[0]) - (self._start + at)
                return at
        return -1

    def _next_record(self, position: int) -> int:
        """Return the position of the next record with its own log offset, -1 without one."""
        if position >= self._source.stop:
            return -1
        return find_record(replace(self._window(), size=self._source.stop), position)

    def _try(self, at: int, next_place: int) -> SalvagedRun | TornRecord | int | None:
        """Read the record at a magic: a bad body, a torn head, a whole record's log offset, or None."""
        window = self._window()
        offset = window.file_start + at
        end = at + RECORD_MIN_SIZE
        # The four bytes before a magic may be on an unreadable page.
        if end > window.size or window.readable_end(at, end) < end:
            return None
        head = bytes(window.buffer[at:end])
        named = int.from_bytes(head[28:36], "big", signed=True)
        step = _record_at(window, at, VERIFYING)
        if isinstance(step, Run):
            return named if named == offset or self._fits(named, int(step.columns.size[0]), next_place) else None
        if named != offset:
            return None
        if isinstance(step, Damage) and step.reason == DamageReason.BAD_CRC:
            run = _record_at(window, at, _NO_CRC)
            if isinstance(run, Run):
                self._end = offset + int(run.columns.size[0])
                return SalvagedRun(self._source.name, run, Grade.BODY_CRC, DamageReason.BAD_CRC.describe())
        return self._torn(at, offset, head, _reason(step))

    def _fits(self, named: int, size: int, next_place: int) -> bool:
        """Return whether a record with another log offset fits into the hole of the log around it."""
        limit = self._log_limit() if next_place < 0 else self._window().file_start + next_place
        return self._end <= named and named + size <= limit

    def _log_limit(self) -> int:
        """Return the log offset of the segment's end."""
        return max(self._source.limit, self._start + self._source.window.size)

    def _torn(self, at: int, offset: int, head: bytes, reason: str) -> TornRecord:
        return TornRecord(
            self._source.name,
            at,
            offset,
            size=int.from_bytes(head[:4], "big", signed=True),
            queue_id=int.from_bytes(head[12:16], "big", signed=True),
            queue_offset=int.from_bytes(head[20:28], "big", signed=True),
            born_timestamp_ms=int.from_bytes(head[40:48], "big", signed=True),
            reason=reason,
        )


def _doubted(taken: SalvagedRun, overlapped: bool, inserted: bool) -> Iterator[SalvagedRun]:
    """Yield the records, the last one as partial if bytes were removed from or inserted into it."""
    if not (overlapped or inserted):
        yield taken
        return
    if taken.count > 1:
        yield taken.rows(0, taken.count - 1)
    reason = "the next record begins inside of it" if overlapped else "bytes were inserted inside or after it"
    yield replace(taken.rows(taken.count - 1, taken.count), grade=Grade.PARTIAL, reason=reason)


def _record_at(window: Window, at: int, rules: ScanRules) -> Run | Damage | Blank | End:
    """Return the record at a position as a run, or the outcome of the scan if there is none."""
    for step in scan_segment(window, at, window.size, rules=rules, capacity=1):
        return step.part(0, 1) if isinstance(step, Run) else step
    raise AssertionError("a scan ends with an outcome")


def _magic_places(window: Window, start: int, stop: int) -> Iterator[int]:
    """Find positions in [start, stop) 4 bytes before a magic. Unreadable pages are left out."""
    return (at - 4 for at in window.bytes.find(MAGIC, start + 4, stop + 4))


def _end_of(run: Run) -> int:
    """Return the position after the last record of a run."""
    return int(run.columns.position[-1] + run.columns.size[-1])


def _reason(step: Blank | End | Damage | Run) -> str:
    match step:
        case Damage():
            return step.describe_reason()
        case Blank():
            return "a blank that does not reach the end of the file"
        case _:
            return "zeros"
