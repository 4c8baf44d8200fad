"""A recovery, or a cut, as a plan: the Change that makes of a store what its opened parts have become.

    1. the log is cut: later segments go, the 8 bytes at the cut are zeroed
    2. what was cut of queues and index goes, what was built takes its place
    3. checkpoint and abort marker say that the store is in order

The opened store comes from store.recovery.recover. With `rebuild`, it comes from store.recovery.from_rebuild after
Spark walked the log. What a broker deletes, the plan removes into quarantine.
"""

from __future__ import annotations

from pathlib import Path

from store.change.actions import Patch, Publish, Remove
from store.change.change import Change
from store.commitlog.resync import count_lost
from store.commitlog.scan import Blank, Damage, End, Outcome, scan_log
from store.errors import BadRequest, DamagedRecord
from store.kernels.run import Run
from store.opened.chain_end import NORMAL_SEGMENTS
from store.opened.opened_store import OpenedStore
from store.rebuild.scope import RebuildScope, publish_actions
from store.recovery.from_rebuild import Rebuild, recover_by_rebuild
from store.recovery.recover import (
    Progress,
    RecoveryReport,
    dispatch_stretch,
    end_log,
    recover_store,
    walk,
)

CUT_SIZE = 8
COMPARED_BYTES = 1 << 20


def plan_recovery(
    opened: OpenedStore,
    *,
    mode: str = "auto",
    keep_index: bool = False,
    cold: bool = False,
    rebuild: Rebuild | None = None,
    progress: Progress | None = None,
) -> Change:
    """The whole recovery of a store whose parts were opened with an overlay.

    cold     spares the page cache
    rebuild  walks the whole log and builds queues and index in this process's place; the other options are moot then
    """
    if rebuild is not None:
        found = recover_by_rebuild(opened, rebuild)
    else:
        found = recover_store(opened, mode=mode, keep_index=keep_index, cold=cold, progress=progress)
    change = _new_change(opened, "recover")
    change.facts = {
        "mode": found.mode,
        "compat": opened.line.name,
        "start_segment": found.start_offset,
        "start_reason": found.start_reason,
        "records": found.record_count,
        "walked_bytes": found.walked_bytes,
        "valid_end": found.log_end,
        "stopped_by": _describe(found.outcome),
        "queue_end_before": found.queue_end_before,
    }
    _cut_log(opened, change, found)
    if rebuild is not None:
        assert change.staging is not None
        change.actions += publish_actions(change.root, change.staging, RebuildScope(), opened.fs)
    else:
        _publish_overlay(opened, change)
    if opened.log.segments.files:
        opened.checkpoint.physic_ms = max(opened.checkpoint.physic_ms, found.last_store_timestamp_ms)
    if opened.queues.last_store_timestamp_ms:
        opened.checkpoint.logics_ms = opened.queues.last_store_timestamp_ms
    if change.is_empty:
        # What lies behind an end that stays was out of sight before.
        change.lost = {}
    _finish(opened, change)
    return change


def plan_truncate(opened: OpenedStore, log_offset: int | None = None, *, progress: Progress | None = None) -> Change:
    """Cuts commit log, consume queues and index back to `log_offset`, or to the valid end of the whole log.

    BadRequest when no record begins or ends at `log_offset`.
    """
    segments = opened.log.segments.files
    if not segments:
        raise BadRequest("the commit log is empty", file=opened.layout.commitlog)
    opened.queues.recover()
    found = RecoveryReport("truncate", segments[0].file_start, "the whole log is read")
    if log_offset is None:
        walk(opened, found, [], progress)
    else:
        _require_boundary(opened, log_offset)
        found.log_end = log_offset
    end_log(opened, found)
    found.lost = count_lost(found.behind, found.log_end, opened.fs)
    change = _new_change(opened, "truncate-dirty")
    change.facts = {
        "log_end": found.log_end,
        "stopped_by": _describe(found.outcome) if log_offset is None else "--offset",
    }
    _cut_log(opened, change, found)
    opened.queues.truncate_dirty(found.log_end)
    opened.queues.correct_min_offsets(opened.log.min_offset)
    _cut_index(opened, found.log_end)
    _publish_overlay(opened, change)
    if not change.is_empty:
        _publish_checkpoint(opened, change)
    return change


def _new_change(opened: OpenedStore, command: str) -> Change:
    staging = opened.overlay.folder if opened.overlay is not None else None
    return Change(command, opened.layout.root, opened.fs, staging=staging)


def _cut_log(opened: OpenedStore, change: Change, found: RecoveryReport) -> None:
    """Step 5."""
    change.lost = found.lost
    for segment in reversed(found.behind):
        if segment.file_start > found.log_end:
            change.actions.append(Remove(segment.path, "behind the log's end"))
        elif not isinstance(found.outcome, Blank | End):
            position = found.log_end - segment.file_start
            stale = bytes(segment.buffer[position : position + CUT_SIZE])
            if any(stale):
                reason = "the record at the cut must not be read again"
                change.actions.append(Patch(segment.path, position, bytes(len(stale)), reason))


def _cut_index(opened: OpenedStore, log_end: int) -> None:
    """Rebuilds the index files that reach behind `log_end`, from the beginning of the first of them."""
    beyond = [file for file in opened.index.files if file.header.end_log_offset >= log_end]
    begins = [file.header.begin_log_offset for file in beyond if file.header.index_count > 1]
    opened.index.remove(beyond)
    if begins and min(begins) < log_end:
        dispatch_stretch(opened, min(begins), log_end, [opened.index])


def _publish_overlay(opened: OpenedStore, change: Change) -> None:
    """Steps 6 to 8 as actions: what the overlay cut goes, what it built takes its place."""
    staged = [*opened.queues.staged_files(), *opened.index.staged_files()]
    places = {place for place, _ in staged}
    for path in (*opened.queues.removed_paths(), *opened.index.removed_paths()):
        if path not in places:
            change.actions.append(Remove(path, _why_removed(opened, path)))
    for place, path in staged:
        if not _is_same_file(opened, place, path):
            change.actions.append(Publish(place, path, "built from the log"))


def _is_same_file(opened: OpenedStore, place: Path, staged: Path) -> bool:
    """Whether a file was staged to be written to, and then nothing in it changed."""
    fs = opened.fs
    if not fs.exists(place) or fs.stat(place).st_size != fs.stat(staged).st_size:
        return False
    old, new = fs.open_read(place), fs.open_read(staged)
    pieces = range(0, fs.stat(place).st_size, COMPARED_BYTES)
    return all(fs.read(old, at, COMPARED_BYTES) == fs.read(new, at, COMPARED_BYTES) for at in pieces)


def _why_removed(opened: OpenedStore, path: Path) -> str:
    if path.is_relative_to(opened.layout.index):
        return "may lack keys: it was not full and flushed before the crash"
    return "its units point behind the log's end"


def _finish(opened: OpenedStore, change: Change) -> None:
    """Step 9."""
    change.sync_paths = [file.path for file in opened.log.segments.files[-NORMAL_SEGMENTS:]]
    if change.actions or opened.abort.exists():
        _publish_checkpoint(opened, change)
    if opened.abort.exists():
        change.actions.append(Remove(opened.layout.abort, "the store is in order again"))


def _publish_checkpoint(opened: OpenedStore, change: Change) -> None:
    page = opened.checkpoint.page.encode()
    if opened.checkpoint.file_size is not None and opened.fs.read_file(opened.layout.checkpoint) == page:
        return
    change.publish_bytes(opened.layout.checkpoint, page, "says how far the store is safe")


def _require_boundary(opened: OpenedStore, log_offset: int) -> None:
    """BadRequest unless a record ends, or one begins, at `log_offset`; names the places on both sides."""
    segment = opened.log.segments.find_by_offset(log_offset)
    files = opened.log.segments.files
    if log_offset == files[-1].file_start + files[-1].size or log_offset == files[0].file_start:
        return
    if segment is None:
        raise BadRequest(f"log offset {log_offset} lies in no segment", file=opened.layout.commitlog)
    before = segment.file_start
    for step in scan_log([segment], segment.file_start, rules=opened.scan_rules(check_crc=False)):
        if isinstance(step, Run):
            starts = step.columns.position + step.file_start
            if log_offset in starts or log_offset == step.end:
                return
            inside = starts[starts < log_offset]
            before = int(inside[-1]) if len(inside) else before
            if step.end > log_offset:
                break
        elif step.file_start + step.position == log_offset:
            return
    raise BadRequest(
        f"no record begins at log offset {log_offset}",
        file=segment.path,
        offset=log_offset - segment.file_start,
        hint=f"the record before begins at {before}",
    )


def _describe(outcome: Outcome | None) -> str:
    match outcome:
        case None:
            return "an empty log"
        case Blank():
            return f"the end of the last segment ({outcome.path.name}, offset {outcome.position})"
        case End():
            return f"the end of what was written ({outcome.path.name}, offset {outcome.position})"
        case Damage():
            return str(DamagedRecord(outcome.reason.describe(), file=outcome.path.name, offset=outcome.position))
