"""Finds the log's end for readers, and the newest queued record before it.

    crashed            scan with CRC from the abnormal recovery's start: the end that the recovery will set
    closed or in use   scan as a normal recovery, if that is short; else only the newest written segment, with CRC of
                       the newest records

Dispatch follows the log's order. So the queues of a closed store are complete if the newest record has its unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from store.broker_line import BrokerLine
from store.formats.java import decode_utf8
from store.formats.message import is_queued
from store.formats.run import Run
from store.formats.segment_head import SEGMENT_HEAD_SIZE, first_record_at
from store.structures.commitlog.end import NORMAL_SEGMENTS, LogEnd, find_end
from store.structures.commitlog.scan import VERIFYING, ScanRules, Segment, written_after

WALKED_ANYWAY_BYTES = 64 * 1024 * 1024
"""Up to this size the scan of a normal recovery is fast enough."""
FETCHED_ANYWAY_BYTES = 1 << 20
"""The same limit for a remote log: the size of the scan's first window."""
_VERIFIED_RECORDS = 64


class NewestRecord(NamedTuple):
    """The newest record that belongs in a queue; `end` is the log offset after it."""

    topic: str
    queue_id: int
    end: int


class ViewedEnd(NamedTuple):
    """The log's end, and the newest queued record before it; None if the scan met none."""

    end: LogEnd
    newest: NewestRecord | None


def find_crashed_end(
    segments: list[Segment], start: int, rules: ScanRules, progress: Callable[[int, int], None] | None
) -> ViewedEnd:
    """Scan from `start`, the log offset where an abnormal recovery starts."""
    total = written_after(segments, start)
    newest = _Newest()

    def on_run(run: Run) -> None:
        newest.note(run)
        if progress is not None:
            progress(run.end - start, total)

    return ViewedEnd(find_end(segments, start, rules, on_run), newest.record())


def find_closed_end(
    segments: list[Segment], line: BrokerLine, rules: ScanRules, walked_anyway: int | None = None
) -> ViewedEnd:
    """Scan the newest segments of a log that was closed, or is in use.

    walked_anyway  up to this many bytes are scanned as a normal recovery does; WALKED_ANYWAY_BYTES by default
    """
    walked_anyway = WALKED_ANYWAY_BYTES if walked_anyway is None else walked_anyway
    if not segments:
        return ViewedEnd(LogEnd(0, 0), None)
    newest = _Newest()
    last = segments[-NORMAL_SEGMENTS:]
    if sum(segment.size for segment in last) <= walked_anyway:
        first = _newest_written(segments) if line.starts_at_queue_end else last[0]
        return ViewedEnd(find_end(segments, first.file_start, rules, newest.note), newest.record())
    start = _newest_written(segments).file_start
    end = find_end(segments, start, ScanRules(accept_v2=rules.accept_v2), newest.note)
    verified = find_end(segments, newest.tail, VERIFYING) if newest.tail is not None and rules.check_crc else end
    if verified.log_end < end.log_end:
        end.log_end, end.outcome = verified.log_end, verified.outcome
    return ViewedEnd(end, newest.record())


class _Newest:
    """The newest run of a scan."""

    def __init__(self) -> None:
        self._run: Run | None = None

    def note(self, run: Run) -> None:
        self._run = run

    @property
    def tail(self) -> int | None:
        """The log offset of the record _VERIFIED_RECORDS before the run's end; None without a run."""
        run = self._run
        if run is None:
            return None
        return run.file_start + int(run.columns.position[-_VERIFIED_RECORDS:][0])

    def record(self) -> NewestRecord | None:
        run = self._run
        if run is None:
            return None
        columns = run.columns
        row = next((row for row in range(run.count - 1, -1, -1) if is_queued(int(columns.sys_flag[row]))), -1)
        if row < 0:
            return None
        end = run.file_start + int(columns.position[row] + columns.size[row])
        return NewestRecord(decode_utf8(run.topic(row)), int(columns.queue_id[row]), end)


def _newest_written(segments: list[Segment]) -> Segment:
    for segment in reversed(segments):
        stop = min(segment.size, SEGMENT_HEAD_SIZE)
        if segment.readable_end(0, stop) == stop and first_record_at(segment.buffer[:stop]) is not None:
            return segment
    return segments[0]
