"""The log's end: a scan from a record's start to the first bytes that are no record.

Recovery, truncation, the checkpoint's review, rebuild and the reading view all find the end by this scan. They handle
the scanned records in `on_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from store.formats.columns import DamageReason
from store.formats.run import Run
from store.structures.commitlog.resync import find_record
from store.structures.commitlog.scan import Damage, Outcome, ScanRules, Segment, Step, scan_log, scan_segment

END_OF_LOG = (1 << 63) - 1
"""Beyond every log offset."""
NORMAL_SEGMENTS = 3
"""The number of newest segments that a normal recovery reads."""


@dataclass(slots=True)
class LogEnd:
    """The end of a scan, and the unreadable pages before it. Offsets are log offsets.

    outcome                  the Blank, End or Damage at the end; None without a segment
    last_store_timestamp_ms  of the last record, 0 without records
    last_record              start of the last record, -1 without records
    misplaced_count          records with a log offset field other than their position, counted with by_place rules
    unreadable               unreadable pages before the end
    """

    start: int
    log_end: int
    outcome: Outcome | None = None
    record_count: int = 0
    last_store_timestamp_ms: int = 0
    misplaced_count: int = 0
    last_record: int = -1
    unreadable: list[Damage] = field(default_factory=list)

    @property
    def walked_bytes(self) -> int:
        """Bytes between start and end, including blanks."""
        return self.log_end - self.start

    def describe_unreadable(self) -> list[str]:
        """Return a line for people about each unreadable range that the scan skipped."""
        return [f"passed over {damage.describe()}" for damage in self.unreadable]

    def describe(self) -> str:
        """Return why the log ends here, as a clause for people."""
        return "an empty log" if self.outcome is None else self.outcome.describe()


def find_end(
    segments: Sequence[Segment],
    start: int,
    rules: ScanRules,
    on_run: Callable[[Run], object] = lambda run: None,
    *,
    stop: int | None = None,
) -> LogEnd:
    """Scan the segments from log offset `start`, a record's start, and call `on_run` with every run.

    stop  a log offset: bytes from it on are ignored

    Unreadable pages do not end the log: otherwise one bad sector would lose all records after it.
    """
    return end_of_steps(walk_log(segments, start, rules, stop), start, on_run)


def walk_log(segments: Sequence[Segment], start: int, rules: ScanRules, stop: int | None = None) -> Iterator[Step]:
    """Scan the log, and go on after unreadable pages."""
    at: int | None = start
    while at is not None:
        last: Step | None = None
        for last in scan_log(segments, at, rules=rules, stop=stop):
            yield last
        is_unreadable = isinstance(last, Damage) and last.reason == DamageReason.UNREADABLE
        at = _record_behind(segments, last, rules, stop) if isinstance(last, Damage) and is_unreadable else None


def _record_behind(segments: Sequence[Segment], damage: Damage, rules: ScanRules, stop: int | None) -> int | None:
    """Return the log offset of the first record after unreadable pages, in this or a later segment."""
    for segment in segments:
        if segment.file_start == damage.file_start:
            position = find_record(segment, damage.unreadable[1], accept_v2=rules.accept_v2)
            found = segment.file_start + position if position >= 0 else None
        elif segment.file_start > damage.file_start:
            is_record = isinstance(next(scan_segment(segment, rules=rules)), Run)
            found = segment.file_start if is_record else None
        else:
            continue
        if found is not None:
            return found if stop is None or found < stop else None
    return None


def end_of_steps(steps: Iterable[Step], start: int, on_run: Callable[[Run], object] = lambda run: None) -> LogEnd:
    """Return the end of a scan from `start` with these steps."""
    end = LogEnd(start, start)
    for step in steps:
        if isinstance(step, Run):
            if isinstance(end.outcome, Damage):
                end.unreadable.append(end.outcome)
                end.outcome = None
            on_run(step)
            end.record_count += step.count
            end.misplaced_count += step.misplaced_count
            end.log_end = step.end
            end.last_record = step.file_start + int(step.columns.position[-1])
            end.last_store_timestamp_ms = int(step.columns.store_timestamp_ms[-1])
        else:
            if isinstance(end.outcome, Damage):
                end.unreadable.append(end.outcome)
            end.outcome = step
            end.log_end = step.file_start + step.position
    return end
