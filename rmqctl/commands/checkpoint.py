"""checkpoint: compares the store's checkpoint with the files on disk."""

from __future__ import annotations

from typing import Any

import typer

from rmqctl.changing import ChangeOptions, changes_store, run_change
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.result import Result, Table
from rmqctl.staged import planning

EXAMPLES = {
    "checkpoint show": (
        "rmqctl --store /data/store checkpoint show",
        "rmqctl --store /data/store --format json checkpoint show",
    ),
    "checkpoint rewrite": (
        "rmqctl --store /data/store checkpoint rewrite --dry-run",
        "rmqctl --store /data/store checkpoint rewrite --yes",
    ),
}
SEE_ALSO = ("recover", "check")
FILES = ("checkpoint", "commitlog", "consumequeue", "index")


def run_show(ctx: typer.Context) -> Result:
    """Show the checkpoint's promises against the files.

    For each time in the checkpoint: what it promises, and what the files on disk reach. Also the segment where an
    abnormal recovery would begin, and the reason. Nothing is written. Exit code 1 when the checkpoint is ahead of the
    files, missing, short or negative.
    """
    from store.verbs.recover import review_checkpoint

    session: Session = ctx.obj
    look = ChangeOptions(dry_run=True)
    with (
        planning(session, look, None) as opened,
        session.progress("reading the log") as bar,
    ):
        review = review_checkpoint(opened, progress=bar.update)
    # A backup has no queues and no index.
    for built in () if session.store.reached[1].holds_log_alone else review.built:
        session.note(f"note: {built}")
    facts = {
        "file_bytes": review.file_size,
        "faults": review.faults,
        "log_end": review.log_end,
        "queues_built_to": review.queue_end,
        "trusted_time_ms": review.trusted_time_ms,
        "start_segment": review.start_segment,
        "start_reason": review.start_reason,
    }
    shown = ("promise", "said{0}", "reached{0}", "verdict")
    times = [_row(promise, "_ms") for promise in review.promises if not promise.is_offset]
    offsets = [_row(promise, "_offset") for promise in review.promises if promise.is_offset]
    tables = [Table("times", times, [name.format("_ms") for name in shown])] + (
        [Table("offsets", offsets, [name.format("_offset") for name in shown])] if offsets else []
    )
    if review.is_ahead:
        verdict = "the checkpoint promises more than the files hold"
    else:
        verdict = "; ".join(review.faults) or "the files hold what it promises"
    is_wrong = review.is_ahead or bool(review.faults)
    return Result("checkpoint show", facts, tables, FINDINGS if is_wrong else OK, verdict)


def _row(promise: Any, unit: str) -> dict[str, Any]:
    return {
        "field": promise.field,
        "promise": promise.promise,
        f"said{unit}": promise.said,
        f"reached{unit}": promise.reached,
        "verdict": promise.verdict,
    }


@changes_store
def run_rewrite(ctx: typer.Context, consent: ChangeOptions) -> Result:
    """Write a checkpoint that promises no more than the files hold.

    Scans the log with CRC from the segment where an abnormal recovery would begin. Makes the files durable, then writes
    the times that they reach.
    """
    session: Session = ctx.obj
    from store import plan_checkpoint

    with (
        planning(session, consent, "checkpoint") as opened,
        session.progress("reading the log") as bar,
    ):
        change = plan_checkpoint(opened, progress=bar.update)
        return run_change(session, "checkpoint rewrite", change, consent)
