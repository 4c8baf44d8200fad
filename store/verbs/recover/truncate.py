"""truncate-dirty as a plan: log, queues and index truncated to one log offset.

0. lost units and queues are rebuilt from the log, and an index that has lost files
1. the log offset: the given one, at which a record must begin or end, or the valid end of the whole log
2. the log is truncated there, queues lose later units, and records past the log's end are cleared
3. index files that reach past it are rebuilt from the beginning of the first of them
4. groups past the ends of their queues go on there
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from store.change.actions import Patch, Publish
from store.change.change import AnyChange, Change, PlanReport
from store.errors import BadRequest
from store.files.mapped_file import MappedFile
from store.files.numbered import segments_of
from store.files.overlay import stage_new_file
from store.formats.run import Run
from store.formats.wording import amount
from store.opened.detect import require_log
from store.opened.opened_store import OpenedStore
from store.opened.staged import takes_path
from store.structures.commitlog.end import END_OF_LOG, LogEnd, find_end
from store.structures.commitlog.resync import find_record, runs_between
from store.structures.registry import TRUNCATE
from store.verbs.recover.consumed import lowered_offsets
from store.verbs.recover.lost import LossCounter, Losses, LossReport
from store.verbs.recover.lost_index import build_lost_index, cut_index, find_lost_index
from store.verbs.recover.lost_queues import build_all_lost, build_cut_short
from store.verbs.recover.plan import (
    INDEX_PAST_END,
    add_checkpoint,
    add_cut,
    add_derived,
    add_lost,
    find_stale_tail,
    follow_log_end,
    lower_checkpoint,
    new_change,
)
from store.verbs.recover.recover import RecoveryReport, cut_log, drop_derived
from store.verbs.recover.stray_units import find_stray_units
from store.verbs.recover.walk import Progress, walk

GUARDED_BYTES = 80
"""A record's bytes up to its store time, with room for an IPv6 address; two records at one offset differ in them."""


@dataclass
class _End(PlanReport):
    log_end: int
    stopped_by: str


@dataclass
class TruncationPlan(Losses, _End):
    """The new end of the log, and the losses after it."""


@takes_path(TRUNCATE)
def plan_truncation(
    opened: OpenedStore,
    log_offset: int | None = None,
    *,
    force_empty_log: bool = False,
    progress: Progress | None = None,
) -> Change[TruncationPlan]:
    """Truncate log, consume queues and index to `log_offset`, or to the valid end of the whole log.

    >>> import tempfile
    >>> from store import Message, open_store, plan_truncation
    >>> root = f"{tempfile.mkdtemp()}/store"
    >>> with open_store(root, read_only=False) as store:
    ...     first, second = (store.put(Message.of("Orders", text)) for text in ("kept", "cut"))
    >>> with plan_truncation(root, second.log_offset) as change:
    ...     change.lost, change.report.log_end == second.log_offset
    ({'Orders': 1}, True)

    force_empty_log  accepts an empty log beside queues that are not; else this is refused

    BadRequest when no record begins or ends at `log_offset`.
    """
    segments = opened.log.segments.files
    if not force_empty_log:
        require_log(opened.layout, opened.fs)
    if not segments:
        return _plan_for_empty_log(opened, forced=force_empty_log)
    built, _ = build_all_lost(opened, progress=progress)
    losses = LossCounter(opened)
    end = _end(opened, log_offset, losses, progress)
    found = RecoveryReport("truncate", "the whole log is read", end)
    if log_offset is not None:
        _count_records_from(opened, log_offset, losses)
    cut_log(opened, found)
    if log_offset is None:
        losses.read_behind(found.behind, end)
    losses.read_units(found.log_end, END_OF_LOG)
    built += _cut_queues(opened, found.log_end, losses)
    found.lost = losses.report()
    lost_index = find_lost_index(opened, found.log_end, progress=progress)
    built += build_lost_index(opened, found.log_end, lost_index, progress)
    stopped_by = end.describe() if log_offset is None else "the offset that was given"
    change = new_change(opened, "truncate-dirty", TruncationPlan(found.log_end, stopped_by))
    change.remarks = [*opened.assumed, *built] if built else []
    change.notes = end.describe_unreadable()
    add_lost(change, found.lost)
    add_cut(opened, change, found)
    _clear_tail(opened, change, found)
    change.damaged = find_stray_units(opened, found.log_end)
    cut_index(opened, found.log_end)
    add_derived(opened, change, why_index=INDEX_PAST_END)
    change.actions += follow_log_end(opened, found)
    _lower_offsets(opened, change, found.lost)
    if not change.is_empty or not opened.checkpoint.is_whole:
        lower_checkpoint(opened, _last_store_timestamp(opened, end), found.log_end)
        add_checkpoint(opened, change)
    return change


def _end(opened: OpenedStore, log_offset: int | None, losses: LossCounter, progress: Progress | None) -> LogEnd:
    """Run step 1."""
    start = opened.log.segments.files[0].file_start
    if log_offset is None:
        return walk(opened, start, [losses], progress)
    _require_boundary(opened, log_offset)
    return LogEnd(start, log_offset)


def _count_records_from(opened: OpenedStore, log_offset: int, losses: LossCounter) -> None:
    """Count the records from the log offset of the truncation on."""
    segments = opened.log.segments.files
    end_before = find_end(segments, log_offset, opened.scan_rules(check_crc=False))
    losses.read_between(segments, log_offset, end_before.log_end)
    losses.read_behind([s for s in segments if s.file_start + s.size > end_before.log_end], end_before)


def _plan_for_empty_log(opened: OpenedStore, *, forced: bool) -> Change[TruncationPlan]:
    """Remove the queues and index of an empty log."""
    if not forced:
        empty = len(segments_of(opened.layout, opened.fs))
        held = f": it holds {amount(empty, 'segment')} of 0 bytes" if empty else ""
        raise BadRequest(f"the commit log is empty{held}", file=opened.layout.commitlog, code="empty-log")
    opened.queues.recover()
    change = new_change(opened, "truncate-dirty", TruncationPlan(0, "the commit log is empty"))
    lost = drop_derived(opened)
    add_lost(change, lost)
    _lower_offsets(opened, change, lost)
    add_derived(opened, change, why_index="the commit log is empty")
    lower_checkpoint(opened, 0, 0)
    add_checkpoint(opened, change)
    return change


def _cut_queues(opened: OpenedStore, log_end: int, losses: LossCounter) -> list[str]:
    """Run step 2 for the queues; return a sentence for each queue that lost units to damage."""
    opened.queues.truncate_dirty(log_end)
    built = build_cut_short(opened, log_end, losses)
    opened.queues.clear_cut_units()
    opened.queues.correct_min_offsets(opened.log.min_offset)
    return built


def _lower_offsets(opened: OpenedStore, change: AnyChange, lost: LossReport) -> None:
    """Run step 4."""
    lowered = lowered_offsets(opened, lost)
    if lowered is not None:
        lowered.add_to(change)


def _last_store_timestamp(opened: OpenedStore, end: LogEnd) -> int:
    """Return the store time of the last record before the end, 0 without one."""
    segment = opened.log.segments.find_by_offset(end.log_end - 1) if end.log_end else None
    if end.last_store_timestamp_ms or segment is None:
        return end.last_store_timestamp_ms
    last = _last_run(opened, segment, end.log_end)
    return int(last.columns.store_timestamp_ms[-1]) if last is not None else 0


def _last_run(opened: OpenedStore, segment: MappedFile, stop: int) -> Run | None:
    """Return the segment's last run of records before `stop`, also after damage."""
    runs = runs_between([segment], segment.file_start, stop, rules=opened.scan_rules(check_crc=False))
    return next(iter(deque(runs, maxlen=1)), None)


def _require_boundary(opened: OpenedStore, log_offset: int) -> None:
    """Raise BadRequest unless a record begins or ends at `log_offset`."""
    segment = opened.log.segments.find_by_offset(log_offset)
    files = opened.log.segments.files
    if log_offset == files[-1].file_start + files[-1].size or log_offset == files[0].file_start:
        return
    if segment is None:
        raise BadRequest(f"log offset {log_offset} is in no segment", file=opened.layout.commitlog)
    position, rules = log_offset - segment.file_start, opened.scan_rules(check_crc=False)
    last = _last_run(opened, segment, log_offset)
    ends_here = last is not None and last.end == log_offset
    if not ends_here and find_record(segment, position, accept_v2=rules.accept_v2) != position:
        before = segment.file_start if last is None else segment.file_start + int(last.columns.position[-1])
        raise BadRequest(
            f"no record begins at log offset {log_offset}",
            file=segment.path,
            offset=position,
            hint=f"the record before begins at {before}",
        )


def _clear_tail(opened: OpenedStore, change: AnyChange, found: RecoveryReport) -> None:
    """Clear whole records past the log's end: a copy without them takes the segment's place.

    A broker that overwrites a part of the old records may read the rest again after a crash. The patch writes zeros
    over zeros, so that undo is refused if records were put since: undoing the copy alone would remove them.
    """
    segment = find_stale_tail(opened, found.log_end)
    if segment is None:
        return
    assert change.staging is not None
    position = found.log_end - segment.file_start
    staged = change.staging / "commitlog" / segment.path.name
    descriptor = stage_new_file(staged, segment.size, opened.fs)
    opened.fs.copy_range(opened.fs.open_read(segment.path), descriptor, 0, position)
    cleared = bytes(min(GUARDED_BYTES, segment.size - position))
    change.actions = [action for action in change.actions if action.path != segment.path]
    change.actions += [
        Publish(segment.path, staged, "without the old records past the log's end"),
        Patch(segment.path, position, cleared, "forbids an undo once records are put here"),
    ]
