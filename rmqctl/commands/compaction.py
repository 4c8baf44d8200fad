"""compaction: the surviving messages of topics with cleanup.policy=COMPACTION."""

from __future__ import annotations

import typer

from rmqctl.changing import ChangeOptions, changes_store, run_change
from rmqctl.context import Session
from rmqctl.result import Result
from rmqctl.staged import locked

EXAMPLES = {
    "rebuild compaction": (
        "rmqctl --store /data/store rebuild compaction --dry-run",
        "rmqctl --store /data/store rebuild compaction --yes",
    ),
}
SEE_ALSO = ("check", "get")


@changes_store
def run_mend(ctx: typer.Context, consent: ChangeOptions) -> Result:
    """Finish or drop a compaction that was interrupted.

    A broker does not start if a compacted topic's records and entries are in files of different names. Nor does it
    start with a .delete file left. This command renames a file back where nothing replaced it, and builds lost entries
    from the records. It moves the files that the interrupted run had not moved, and removes leftovers. What is removed
    goes to quarantine.

    After a clean stop it also copies messages that have no copy, as a broker's dispatch would. No broker start does
    that.
    """
    session: Session = ctx.obj
    from store.opened import staging
    from store.structures import plan_compaction_mend

    with (
        locked(session, take=not consent.dry_run) as (layout, fs),
        staging(layout, fs, "compaction", dry_run=consent.dry_run) as folder,
    ):
        return run_change(session, "rebuild compaction", plan_compaction_mend(layout, fs, folder), consent)
