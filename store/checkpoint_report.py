"""What the checkpoint promises, what the files on disk reach, and where an abnormal recovery would begin.

`plan_rewrite` computes a checkpoint that promises no more than the files hold: every time is taken from the log itself.
"""

from __future__ import annotations

from typing import Any

from store.change import Change, Publish
from store.errors import DamagedRecord
from store.formats.checkpoint_page import SAFETY_MARGIN_MS, CheckpointPage
from store.recovery import starting_segment, view_as_it_is
from store.store_parts import StoreParts

PROMISES = {
    "physic_ms": "the commit log is flushed up to messages of this store time",
    "logics_ms": "the consume queues were built up to messages of this store time",
    "index_ms": "index files that end at or before this time are full and flushed",
    "master_flushed_offset": "5.x: the master's flushed log offset",
    "confirm_log_offset": "5.x: start of the last valid record at the last recovery",
}


def checkpoint_report(parts: StoreParts) -> dict[str, Any]:
    """The page's fields with promise and finding, and the starting segment; reads, changes nothing."""
    page = parts.checkpoint.page
    start, reason = starting_segment(parts, abnormal=True)
    found = _found(parts)
    rows = [
        {"field": name, "said": getattr(page, name), "found": found.get(name), "promise": promise}
        for name, promise in PROMISES.items()
    ]
    return {
        "file_size": parts.checkpoint.file_size,
        "abort_marker": parts.abort.exists(),
        "trusted_ms": page.min_timestamp_ms,
        "margin_ms": SAFETY_MARGIN_MS,
        "start_segment": start,
        "start_reason": reason,
        "fields": rows,
    }


def plan_rewrite(parts: StoreParts) -> Change:
    """A checkpoint whose times the files keep; 5.x fields and unknown bytes stay as they are."""
    found = _found(parts)
    page = parts.checkpoint.page
    safe = page._replace(
        physic_ms=found["physic_ms"], logics_ms=found["logics_ms"], index_ms=found["index_ms"]
    )
    change = Change(
        "checkpoint rewrite",
        parts.layout.root,
        parts.fs,
        staging=parts.overlay.folder if parts.overlay is not None else None,
        sync_paths=[file.path for file in parts.log.files.files[-1:]],
    )
    change.facts = {"before": _times(page), "after": _times(safe)}
    if safe != page or parts.checkpoint.file_size is None:
        assert change.staging is not None
        parts.fs.make_folder(change.staging)
        staged = change.staging / "checkpoint"
        parts.fs.write(parts.fs.open_new(staged), 0, safe.encode())
        change.actions.append(Publish(parts.layout.checkpoint, staged, "promises no more than the files hold"))
    return change


def _found(parts: StoreParts) -> dict[str, int]:
    """The times that the files themselves bear out."""
    view_as_it_is(parts)
    queued = parts.queues.max_physic_offset
    full = [file.header.end_timestamp_ms for file in parts.index.files if file.is_full]
    return {
        "physic_ms": _time_before(parts, parts.log.max_offset),
        "logics_ms": _time_before(parts, queued),
        "index_ms": max(full, default=0),
    }


def _time_before(parts: StoreParts, log_offset: int) -> int:
    """Store time of the last queued record that ends at or before `log_offset`, 0 without one."""
    best_offset, best_ms = -1, 0
    for queue in parts.queues:
        unit = queue.unit(queue.max_offset - 1) if queue.max_offset else None
        if unit is None or not best_offset < unit.log_offset < log_offset:
            continue
        try:
            message = parts.log.lookup(unit.log_offset, unit.size)
        except DamagedRecord:
            continue
        if message is not None:
            best_offset, best_ms = unit.log_offset, message.store_timestamp_ms
    return best_ms


def _times(page: CheckpointPage) -> dict[str, int]:
    return {"physic_ms": page.physic_ms, "logics_ms": page.logics_ms, "index_ms": page.index_ms}
