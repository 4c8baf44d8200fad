"""A recovery, or a cut, as a plan: the Change that makes of a store what its opened parts have become.

    1. the log is cut: later segments go, the 8 bytes at the cut are zeroed
    2. what was cut of queues and index goes, what was built takes its place
    3. checkpoint and abort marker say that the store is in order

The parts come from store.recovery, which has walked the log in this process; or, where a `rebuild` is given, from
store.recovery_by_rebuild, for which Spark has. What a broker deletes, the plan removes into quarantine.
"""

from __future__ import annotations

from pathlib import Path

from store.change.actions import Patch, Publish, Remove
from store.change.change import Change
from store.commitlog.scan import Blank, Damage, End, Outcome, scan_log
from store.errors import BadRequest, DamagedRecord
from store.kernels.run import Run
from store.log_end import NORMAL_SEGMENTS
from store.rebuild import RebuildScope, publish_actions
from store.recovery import (
    Progress,
    Recovered,
    dispatch_stretch,
    end_log,
    recover_parts,
    scan_rules,
    walk,
)
from store.recovery_by_rebuild import Rebuild, recover_by_rebuild
from store.salvage import count_lost
from store.store_parts import StoreParts

CUT_SIZE = 8
COMPARED_BYTES = 1 << 20


def plan_recovery(
    parts: StoreParts,
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
        found = recover_by_rebuild(parts, rebuild)
    else:
        found = recover_parts(parts, mode=mode, keep_index=keep_index, cold=cold, progress=progress)
    change = _new_change(parts, "recover")
    change.facts = {
        "mode": found.mode,
        "compat": parts.compat,
        "start_segment": found.start_offset,
        "start_reason": found.start_reason,
        "records": found.record_count,
        "walked_bytes": found.walked_bytes,
        "valid_end": found.log_end,
        "stopped_by": _describe(found.outcome),
        "queue_end_before": found.queue_end_before,
    }
    _cut_log(parts, change, found)
    if rebuild is not None:
        assert change.staging is not None
        change.actions += publish_actions(change.root, change.staging, RebuildScope(), parts.fs)
    else:
        _publish_overlay(parts, change)
    if parts.log.files.files:
        parts.checkpoint.physic_ms = max(parts.checkpoint.physic_ms, found.last_store_timestamp_ms)
    if parts.queues.last_store_timestamp_ms:
        parts.checkpoint.logics_ms = parts.queues.last_store_timestamp_ms
    if change.is_empty:
        # What lies behind an end that stays was out of sight before.
        change.lost = {}
    _finish(parts, change)
    return change


def plan_truncate(parts: StoreParts, log_offset: int | None = None, *, progress: Progress | None = None) -> Change:
    """Cuts commit log, consume queues and index back to `log_offset`, or to the valid end of the whole log.

    BadRequest when no record begins or ends at `log_offset`.
    """
    segments = parts.log.files.files
    if not segments:
        raise BadRequest("the commit log is empty", file=parts.layout.commitlog)
    parts.queues.recover()
    found = Recovered("truncate", segments[0].file_start, "the whole log is read")
    if log_offset is None:
        walk(parts, found, [], progress)
    else:
        _require_boundary(parts, log_offset)
        found.log_end = log_offset
    end_log(parts, found)
    found.lost = count_lost(found.behind, found.log_end, parts.fs)
    change = _new_change(parts, "truncate-dirty")
    change.facts = {
        "log_end": found.log_end,
        "stopped_by": _describe(found.outcome) if log_offset is None else "--offset",
    }
    _cut_log(parts, change, found)
    parts.queues.truncate_dirty(found.log_end)
    parts.queues.correct_min_offsets(parts.log.min_offset)
    _cut_index(parts, found.log_end)
    _publish_overlay(parts, change)
    if not change.is_empty:
        _publish_checkpoint(parts, change)
    return change


def _new_change(parts: StoreParts, command: str) -> Change:
    staging = parts.overlay.folder if parts.overlay is not None else None
    return Change(command, parts.layout.root, parts.fs, staging=staging)


def _cut_log(parts: StoreParts, change: Change, found: Recovered) -> None:
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


def _cut_index(parts: StoreParts, log_end: int) -> None:
    """Rebuilds the index files that reach behind `log_end`, from the beginning of the first of them."""
    beyond = [file for file in parts.index.files if file.header.end_log_offset >= log_end]
    begins = [file.header.begin_log_offset for file in beyond if file.header.index_count > 1]
    parts.index.remove(beyond)
    if begins and min(begins) < log_end:
        dispatch_stretch(parts, min(begins), log_end, [parts.index])


def _publish_overlay(parts: StoreParts, change: Change) -> None:
    """Steps 6 to 8 as actions: what the overlay cut goes, what it built takes its place."""
    staged = [*parts.queues.staged_files(), *parts.index.staged_files()]
    places = {place for place, _ in staged}
    for path in (*parts.queues.removed_paths(), *parts.index.removed_paths()):
        if path not in places:
            change.actions.append(Remove(path, _why_removed(parts, path)))
    for place, path in staged:
        if not _is_same_file(parts, place, path):
            change.actions.append(Publish(place, path, "built from the log"))


def _is_same_file(parts: StoreParts, place: Path, staged: Path) -> bool:
    """Whether a file was staged to be written to, and then nothing in it changed."""
    fs = parts.fs
    if not fs.exists(place) or fs.stat(place).st_size != fs.stat(staged).st_size:
        return False
    old, new = fs.open_read(place), fs.open_read(staged)
    pieces = range(0, fs.stat(place).st_size, COMPARED_BYTES)
    return all(fs.read(old, at, COMPARED_BYTES) == fs.read(new, at, COMPARED_BYTES) for at in pieces)


def _why_removed(parts: StoreParts, path: Path) -> str:
    if path.is_relative_to(parts.layout.index):
        return "may lack keys: it was not full and flushed before the crash"
    return "its units point behind the log's end"


def _finish(parts: StoreParts, change: Change) -> None:
    """Step 9."""
    change.sync_paths = [file.path for file in parts.log.files.files[-NORMAL_SEGMENTS:]]
    if change.actions or parts.abort.exists():
        _publish_checkpoint(parts, change)
    if parts.abort.exists():
        change.actions.append(Remove(parts.layout.abort, "the store is in order again"))


def _publish_checkpoint(parts: StoreParts, change: Change) -> None:
    page = parts.checkpoint.page.encode()
    if parts.checkpoint.file_size is not None and parts.fs.read_file(parts.layout.checkpoint) == page:
        return
    change.publish_bytes(parts.layout.checkpoint, page, "says how far the store is safe")


def _require_boundary(parts: StoreParts, log_offset: int) -> None:
    """BadRequest unless a record ends, or one begins, at `log_offset`; names the places on both sides."""
    segment = parts.log.files.find_by_offset(log_offset)
    files = parts.log.files.files
    if log_offset == files[-1].file_start + files[-1].size or log_offset == files[0].file_start:
        return
    if segment is None:
        raise BadRequest(f"log offset {log_offset} lies in no segment", file=parts.layout.commitlog)
    before = segment.file_start
    for step in scan_log([segment], segment.file_start, rules=scan_rules(parts, check_crc=False)):
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
