"""Cleaning: which old files may go, and by which rule. As a plan.

A pass does something when one of these holds:

    hour    the local hour is one of deleteWhen
    space   the partition of the commit log or of the consume queues is fuller than diskMaxUsedSpaceRatio (75 %)
    manual  somebody asked for it (--force)

Then segments go from the oldest, never the last, at most ten a pass, while

    expired   the file's modification time is fileReservedTime hours ago
    forced    the partition is fuller than diskSpaceCleanForciblyRatio (85 %): age no longer counts

After that queue files whose every record is gone, and index files that end before the log begins.
Modification times are what counts, whatever the messages say; that nobody has consumed a message keeps nothing. The
plan therefore says how many unconsumed messages of each consumer group would go.

Source: DefaultMessageStore.CleanCommitLogService, CleanConsumeQueueService (4.9.8).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from store.change.actions import Remove
from store.change.change import Change
from store.change.workspace import relative_name
from store.consumequeue.consume_queue import ConsumeQueue, unit_array
from store.disk.mapped_file import MappedFile
from store.errors import BadRequest
from store.opened.opened_store import OpenedStore
from store.recovery.lost import LossCounter
from store.recovery.plan import add_lost

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Trigger:
    """Why a pass does something, or does not."""

    reasons: tuple[str, ...]
    forced: bool
    used_percent: float

    @property
    def is_on(self) -> bool:
        return bool(self.reasons)


def plan_clean(
    opened: OpenedStore,
    *,
    now_ms: int,
    reserved_hours: int | None = None,
    disk_used_percent: float | None = None,
    force: bool = False,
    passes: int = 1,
) -> Change:
    """What the broker's cleaning would delete at `now_ms`, with a verdict for every segment in facts["verdicts"]."""
    hours = opened.config.file_reserved_time if reserved_hours is None else reserved_hours
    if hours < 0 or passes < 1:
        raise BadRequest(f"cleaning needs 0 or more hours and 1 or more passes, not {hours} and {passes}")
    trigger = find_trigger(opened, now_ms, disk_used_percent, force)
    verdicts = _verdicts(opened, trigger, now_ms, hours, passes)
    expired = [file for file, rule, goes in verdicts if goes]
    change = Change("clean-expired", opened.layout.root, opened.fs)
    change.actions = [Remove(file.path, rule) for file, rule, goes in verdicts if goes]
    if expired:
        _add_derived(opened, change, expired)
    change.facts = {
        "trigger": ", ".join(trigger.reasons) or "none: not the hour, enough space, not forced",
        "disk_used_percent": round(trigger.used_percent, 1),
        "reserved_hours": hours,
        "freed_bytes": sum(change.bytes_affected(action) for action in change.actions),
        "verdicts": [_verdict_row(opened, *verdict) for verdict in verdicts],
    }
    _add_lost(opened, change, expired)
    return change


def find_trigger(opened: OpenedStore, now_ms: int, disk_used_percent: float | None, force: bool) -> Trigger:
    """CleanCommitLogService.isTimeToDelete and isSpaceToDelete."""
    config = opened.config
    reasons = []
    hour = time.localtime(now_ms // 1000).tm_hour
    if hour in _hours(config.delete_when):
        reasons.append(f"hour {hour:02d} is in deleteWhen")
    used = [disk_used_percent / 100] if disk_used_percent is not None else _used_ratios(opened)
    fullest = max(used)
    if any(one < 0 or one > config.disk_max_used_space_ratio / 100 for one in used):
        reasons.append(f"the disk is {fullest:.0%} full, more than {config.disk_max_used_space_ratio} %")
    if force:
        reasons.append("forced by hand")
    forced = fullest > config.disk_space_clean_forcibly_ratio / 100 and config.clean_file_forcibly_enable
    return Trigger(tuple(reasons), forced, fullest * 100)


def _used_ratios(opened: OpenedStore) -> list[float]:
    """Of the log's partition, the emptiest where there are several, and of the queues' partition."""
    layout = opened.layout
    return [min(_used(opened, one) for one in layout.writable_commitlogs), _used(opened, layout.consumequeue)]


def _used(opened: OpenedStore, folder: Any) -> float:
    """A store without consumequeue/ lies on one partition anyway."""
    return opened.fs.used_ratio(folder if opened.fs.exists(folder) else opened.layout.root)


def _hours(delete_when: str) -> set[int]:
    words = [word.strip() for word in delete_when.split(";") if word.strip()]
    if not all(word.isdigit() and int(word) < 24 for word in words):
        raise BadRequest(f"deleteWhen is {delete_when!r}", hint="it takes hours such as 04 or 04;16")
    return {int(word) for word in words}


def _verdicts(
    opened: OpenedStore, trigger: Trigger, now_ms: int, hours: int, passes: int
) -> list[tuple[MappedFile, str, bool]]:
    """(segment, rule, whether it goes), oldest first (MappedFileQueue.deleteExpiredFileByTime)."""
    limit = passes * opened.config.delete_file_batch_max
    verdicts: list[tuple[MappedFile, str, bool]] = []
    survivor = ""
    for file in opened.log.segments.files[:-1]:
        age_hours = (now_ms - file.mtime_ms) / HOUR_MS
        expired = now_ms >= file.mtime_ms + hours * HOUR_MS
        if not trigger.is_on:
            rule, goes = "nothing asks for cleaning now", False
        elif survivor:
            rule, goes = f"behind one that stays ({survivor})", False
        elif not expired and not trigger.forced:
            rule, goes = f"modified {age_hours:.1f} hours ago, kept for {hours}", False
        elif len(verdicts) >= limit:
            rule, goes = f"at most {limit} files in {passes} pass{'es' if passes > 1 else ''}", False
        else:
            why = f"modified {age_hours:.1f} hours ago, kept for {hours}" if expired else "the disk is too full"
            rule, goes = why, True
        if trigger.is_on and not goes and not survivor:
            survivor = file.path.name
        verdicts.append((file, rule, goes))
    if opened.log.segments.last is not None:
        verdicts.append((opened.log.segments.last, "the last segment always stays", False))
    return verdicts


def _verdict_row(opened: OpenedStore, file: MappedFile, rule: str, goes: bool) -> dict[str, Any]:
    return {
        "file": relative_name(opened.layout.root, file.path),
        "verdict": "delete" if goes else "keep",
        "rule": rule,
        "mtime_ms": file.mtime_ms,
        "size_bytes": file.size,
    }


def _add_derived(opened: OpenedStore, change: Change, expired: list[MappedFile]) -> None:
    """The queue and index files that only speak of what goes."""
    min_log_offset = expired[-1].file_start + expired[-1].size
    opened.queues.recover()
    for queue in opened.queues:
        for file in _expired_queue_files(queue, min_log_offset):
            change.actions.append(Remove(file.path, "all its messages are gone"))
    for index_file in opened.index.expired_files(min_log_offset):
        change.actions.append(Remove(index_file.path, "all its messages are gone"))


def _expired_queue_files(queue: ConsumeQueue, min_log_offset: int) -> list[MappedFile]:
    """ConsumeQueue.deleteExpiredFile as a decision: from the oldest, never the last, by the last unit."""
    gone = []
    for file in queue.files.files[:-1]:
        if unit_array(file)["log_offset"][-1] >= min_log_offset:
            break
        gone.append(file)
    return gone


def _add_lost(opened: OpenedStore, change: Change, expired: list[MappedFile]) -> None:
    """What goes with these segments. Lost are only the messages that a consumer group has not consumed."""
    losses = LossCounter(opened)
    if expired:
        low, high = expired[0].file_start, expired[-1].file_start + expired[-1].size
        losses.read_between(expired, low, high)
        losses.read_units(low, high)
    report = losses.report()
    add_lost(change, report)
    change.lost = {}
    for row in report.group_rows():
        change.lost[row["topic"]] = max(row["messages"], change.lost.get(row["topic"], 0))
