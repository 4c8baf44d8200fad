"""The log's end: one walk from a record's start to the first bytes that are no record.

Recovery, truncation, the checkpoint's review, rebuild and the reading view all find the end by this walk. What they do
with the records on the way, they do in `on_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from store.formats.columns import DamageReason
from store.formats.run import Run
from store.structures.commitlog.resync import find_record
from store.structures.commitlog.scan import Damage, Outcome, ScanRules, Segment, Step, scan_log, scan_segment

END_OF_LOG = (1 << 63) - 1
"""Behind every log offset."""
NORMAL_SEGMENTS = 3
"""How many of the newest segments a normal recovery reads."""


@dataclass(slots=True)
class LogEnd:
    """The end of a walk, and the damage it passed.

    Offsets are log offsets.

    outcome                  what ended the walk; None without a segment
    last_store_timestamp_ms  of the last record, 0 without records
    last_record              where the last record begins, -1 without records
    misplaced_count          records that name another log offset than theirs, where the rules ask by place
    unreadable               pages that can't be read, before the end
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
        """Bytes between start and end, with the blanks on the way."""
        return self.log_end - self.start

    def describe_unreadable(self) -> list[str]:
        """Return sentences for people on the pages that the walk passed over."""
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
    """Walk the segments from log offset `start`, a record's start, and give every run to `on_run`.

    stop  a log offset: bytes at or after it count as not there

    Pages that can't be read do not end the log: what is behind them would be lost for a bad sector.
    """
    return end_of_steps(walk_log(segments, start, rules, stop), start, on_run)


def walk_log(segments: Sequence[Segment], start: int, rules: ScanRules, stop: int | None = None) -> Iterator[Step]:
    """Walk the log, also over pages that can't be read: after them the log goes on."""
    at: int | None = start
    while at is not None:
        last: Step | None = None
        for last in scan_log(segments, at, rules=rules, stop=stop):
            yield last
        is_unreadable = isinstance(last, Damage) and last.reason == DamageReason.UNREADABLE
        at = _record_behind(segments, last, rules, stop) if isinstance(last, Damage) and is_unreadable else None


def _record_behind(segments: Sequence[Segment], damage: Damage, rules: ScanRules, stop: int | None) -> int | None:
    """Log offset of the first record behind unreadable pages: in their segment, or at the next one."""
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
    """Return the end that these steps of a walk from `start` lead to."""
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
