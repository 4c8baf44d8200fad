"""The log's end: one walk from a record's start to the first bytes that are no record.

Recovery, truncation, the checkpoint's review, rebuild and the reading view all find the end by this walk. What they do
with the records on the way, they do in `on_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from store.commitlog.scan import Outcome, ScanRules, Segment, Step, scan_log
from store.kernels.run import Run


@dataclass(slots=True)
class LogEnd:
    """Where a walk ended, and what it passed. Offsets are log offsets.

    outcome                  what ended the walk; None without a segment
    last_store_timestamp_ms  of the last record, 0 without records
    """

    start: int
    log_end: int
    outcome: Outcome | None = None
    record_count: int = 0
    last_store_timestamp_ms: int = 0

    @property
    def walked_bytes(self) -> int:
        """Bytes between start and end, with the blanks on the way."""
        return self.log_end - self.start

    def describe(self) -> str:
        """Why the log ends here, as a clause for people."""
        return "an empty log" if self.outcome is None else self.outcome.describe()


def find_end(
    segments: Sequence[Segment],
    start: int,
    rules: ScanRules,
    on_run: Callable[[Run], object] = lambda run: None,
    *,
    stop: int | None = None,
) -> LogEnd:
    """Walks the segments from log offset `start`, a record's start, and gives every run to `on_run`.

    stop  a log offset: bytes at or behind it count as not there
    """
    return end_of_steps(scan_log(segments, start, rules=rules, stop=stop), start, on_run)


def end_of_steps(steps: Iterable[Step], start: int, on_run: Callable[[Run], object] = lambda run: None) -> LogEnd:
    """The end that these steps of a walk from `start` lead to."""
    end = LogEnd(start, start)
    for step in steps:
        if isinstance(step, Run):
            on_run(step)
            end.record_count += step.count
            end.log_end = step.end
            end.last_store_timestamp_ms = int(step.columns.store_timestamp_ms[-1])
        else:
            end.outcome = step
            end.log_end = step.file_start + step.position
    return end
