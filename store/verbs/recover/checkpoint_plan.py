"""Plan a safe checkpoint: it promises at most the contents of the files.

A walk with CRC finds the log's end: from the start of an abnormal recovery to the first bytes that are no record. The
walked files are made durable before the page is published.
"""

from __future__ import annotations

from dataclasses import dataclass

from store.change.change import Change, PlanReport
from store.opened.detect import require_log
from store.opened.opened_store import OpenedStore
from store.opened.staged import takes_path
from store.structures.commitlog.start import starting_segment
from store.structures.registry import CHECKPOINT
from store.verbs.recover.lost_queues import newest_time_ms
from store.verbs.recover.plan import begins_record
from store.verbs.recover.walk import Progress, walk


@dataclass
class CheckpointPlan(PlanReport):
    """The log's end and the times of the new checkpoint."""

    log_end: int
    physic_ms: int
    logics_ms: int
    index_ms: int


@takes_path(CHECKPOINT)
def plan_checkpoint(opened: OpenedStore, *, progress: Progress | None = None) -> Change[CheckpointPlan]:
    """Make a page that promises exactly the files' contents, once durable.

    An opened store needs an overlay. NotAStore if the log is empty beside queues: its disk may not be mounted.
    """
    require_log(opened.layout, opened.fs)
    start, _ = starting_segment(opened, abnormal=True)
    end = walk(opened, start, progress=progress)
    log_end, log_ms = end.log_end, end.last_store_timestamp_ms
    opened.queues.recover()
    queue_ms = newest_time_ms(opened)
    before = opened.checkpoint.page
    page = before._replace(
        physic_ms=log_ms,
        logics_ms=min(queue_ms, log_ms),
        index_ms=min(opened.index.flushed_until_ms, log_ms),
        master_flushed_offset=min(before.master_flushed_offset, log_end),
        confirm_log_offset=min(before.confirm_log_offset, log_end),
        logics_log_offset=before.logics_log_offset if begins_record(opened, before.logics_log_offset) else 0,
    ).mended
    overlay = opened.overlay
    assert overlay is not None, "a plan is made on a store with an overlay"
    report = CheckpointPlan(log_end, page.physic_ms, page.logics_ms, page.index_ms)
    change = Change("checkpoint rewrite", opened.layout.root, opened.fs, report=report, staging=overlay.folder)
    change.notes = end.describe_unreadable()
    if page != before or not opened.checkpoint.is_whole:
        change.publish_bytes(opened.layout.checkpoint, page.encode(), "promises what the files hold")
        change.sync_paths = [file.path for file in opened.log.segments.files if file.file_start <= log_end]
        change.sync_paths += [file.path for queue in opened.queues for file in queue.files.files]
    return change
