"""Plan a cleaning: judge the store's files by the rules of rules.py, and count the loss.

    1. segments   by hour, space and age
    2. lost queues are rebuilt from the log, whose records have the queue offsets
    3. the rest   queue, extension and index files that end before the log begins. The broker's service for them runs
                  by itself, so it deletes them even if no segment is deleted

Only modification times count, not the times of messages; an unconsumed message keeps no file. So the plan has the
number of unconsumed messages that each consumer group would lose.

Source: DefaultMessageStore.CleanCommitLogService, CleanConsumeQueueService, ConsumeQueueExt.truncateByMinAddress
(4.9.8).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from store.change.actions import Publish, Remove
from store.change.change import Change, PlanReport
from store.change.workspace import relative_name
from store.files.mapped_file import MappedFile
from store.formats.run import Run
from store.formats.wording import amount
from store.layout import is_topic_folder_name
from store.opened.opened_store import OpenedStore
from store.opened.staged import takes_path
from store.structures.commitlog.resync import readable_behind
from store.structures.commitlog.scan import ScanRules
from store.structures.consumequeue.numbering import QueueTable
from store.structures.registry import CLEAN
from store.verbs.clean.expired import delete_expired
from store.verbs.clean.rules import (
    Retention,
    SegmentAge,
    Trigger,
    Verdict,
    describe_limits,
    find_trigger,
    judge_segments,
)
from store.verbs.recover.lost import LossCounter, Losses
from store.verbs.recover.lost_queues import build_all_lost
from store.verbs.recover.plan import add_lost, new_change
from store.verbs.recover.walk import Progress

BEFORE_THE_LOG = "ends before the log begins"


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """The verdict on a segment, and its rule."""

    file: str
    verdict: str
    rule: str
    mtime_ms: int
    size_bytes: int


@dataclass
class _Pass(PlanReport):
    trigger: str
    disk_used_percent: float
    reserved_hours: int
    freed_bytes: int
    verdicts: list[FileVerdict]


@dataclass
class CleaningPlan(Losses, _Pass):
    """The reason for a pass, the verdict on each segment, and the unconsumed messages that expire."""


@takes_path(CLEAN)
def plan_cleaning(
    opened: OpenedStore,
    *,
    now_ms: int,
    reserved_hours: int | None = None,
    disk_used_percent: float | None = None,
    force: bool = False,
    passes: int = 1,
    free_bytes: int | None = None,
    progress: Progress | None = None,
) -> Change[CleaningPlan]:
    """Plan the deletions of the broker's cleaning at `now_ms`.

    >>> import tempfile
    >>> from store import Message, open_store, plan_cleaning
    >>> root = f"{tempfile.mkdtemp()}/store"
    >>> with open_store(root, read_only=False) as store:
    ...     result = store.put(Message.of("Orders", "hello"))
    >>> with plan_cleaning(root, now_ms=result.store_timestamp_ms) as change:
    ...     change.is_empty, [verdict.file for verdict in change.report.verdicts]
    (True, ['commitlog/00000000000000000000'])

    Lost queue files are rebuilt first, while the log still has their records.

    The report holds a verdict for every segment.

    disk_used_percent  of both partitions, in place of the file system's figures
    free_bytes         delete the oldest segments of so many bytes together, at any hour; without `reserved_hours` at
                       any age
    """
    retention = Retention.of(opened.config, opened.line, reserved_hours)
    used = _used_ratios(opened) if disk_used_percent is None else (disk_used_percent / 100,) * 2
    if free_bytes is None:
        trigger = find_trigger(retention, now_ms, *used, by_hand=force)
    else:
        trigger = Trigger((f"{amount(free_bytes, 'byte')} requested by hand",), reserved_hours is None, free_bytes)
    segments = opened.log.segments.files
    ages = [SegmentAge(file.path.name, file.mtime_ms, file.size) for file in segments]
    verdicts = judge_segments(ages, trigger, retention, now_ms, passes)
    judged = list(zip(segments, verdicts, strict=True))
    expired = [file for file, verdict in judged if verdict.goes]
    report = CleaningPlan(
        ", ".join(trigger.reasons) or "none: not the hour, enough space, not requested by hand",
        round(max(used) * 100, 1),
        retention.reserved_hours,
        0,
        [_verdict_row(opened, file, verdict) for file, verdict in judged],
    )
    change = new_change(opened, "clean-expired", report)
    built, _ = build_all_lost(opened, finds_absent=_names_absent_queue(opened, expired), progress=progress)
    change.remarks = [*(opened.assumed if built else []), *built, *describe_limits(opened.config, opened.line)]
    found = sum(file.size for file in expired)
    if free_bytes is not None and found < free_bytes:
        change.remarks.append(f"{found:,} of the {amount(free_bytes, 'byte')} requested can be deleted")
    _add_lost(opened, change, expired)
    log_start = expired[-1].file_start + expired[-1].size if expired else opened.log.min_offset
    _drop_derived_before(opened, log_start)
    # Publish rebuilt queue files before the segments with their records are deleted.
    staged = opened.queues.staged_files()
    change.actions = [Publish(place, path, "lost, and built from the log") for place, path in staged]
    change.actions += [Remove(file.path, verdict.rule) for file, verdict in judged if verdict.goes]
    gone = [*opened.queues.removed_paths(), *opened.index.removed_paths()]
    change.actions += [Remove(path, BEFORE_THE_LOG) for path in gone]
    report.freed_bytes = sum(change.bytes_affected(action) for action in change.actions if isinstance(action, Remove))
    return change


def _used_ratios(opened: OpenedStore) -> tuple[float, float]:
    """Return the used shares of the log's partition (the emptiest of several) and of the queues'."""
    layout = opened.layout
    return min(_used(opened, one) for one in layout.writable_commitlogs), _used(opened, layout.consumequeue)


def _used(opened: OpenedStore, folder: Path) -> float:
    """Measure the folder's partition, or the store's if a broker has yet to create the folder."""
    return opened.fs.used_ratio(folder if opened.fs.exists(folder) else opened.layout.root)


def _verdict_row(opened: OpenedStore, file: MappedFile, verdict: Verdict) -> FileVerdict:
    name = relative_name(opened.layout.root, file.path)
    return FileVerdict(name, "delete" if verdict.goes else "keep", verdict.rule, file.mtime_ms, file.size)


def _names_absent_queue(opened: OpenedStore, expired: list[MappedFile]) -> bool:
    """Return whether a record that expires belongs to a queue without a folder."""
    table = QueueTable()
    for step in readable_behind(expired, opened.log.min_offset, rules=ScanRules()):
        if isinstance(step, Run):
            table.assign(step.buffer, step.array, step.count)
    queues = ((topic, queue_id) for topic, queue_id in table.names if is_topic_folder_name(topic))
    return any(queue not in opened.queues for queue in queues)


def _drop_derived_before(opened: OpenedStore, log_start: int) -> None:
    """Delete, in the overlay, the queue, extension and index files that end before `log_start`."""
    if log_start <= 0:
        return
    # An idle queue has one file, and it stays.
    for queue in opened.queues.awake():
        delete_expired(queue, log_start)
    opened.index.remove(opened.index.expired_files(log_start))


def _add_lost(opened: OpenedStore, change: Change[CleaningPlan], expired: list[MappedFile]) -> None:
    """Add the loss report. Only messages that a consumer group has not consumed are lost."""
    losses = LossCounter(opened, without_grades=True)
    if expired:
        low, high = expired[0].file_start, expired[-1].file_start + expired[-1].size
        losses.read_between(expired, low, high)
        losses.read_units(low, high)
    report = losses.report()
    add_lost(change, report)
    change.lost = {}
    for row in report.group_rows():
        change.lost[row.topic] = max(row.message_count, change.lost.get(row.topic, 0))
