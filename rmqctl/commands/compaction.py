"""compaction: the surviving messages of topics with cleanup.policy=COMPACTION."""

from __future__ import annotations

import typer

from rmqctl.changing import ChangeOptions, DryRun, NoQuarantine, Quarantine, Yes, run_change
from rmqctl.context import Session
from rmqctl.result import Result
from rmqctl.staged import locked, staging

EXAMPLES = {
    "rebuild compaction": (
        "rmqctl --store /data/store rebuild compaction --dry-run",
        "rmqctl --store /data/store rebuild compaction --yes",
    ),
}
SEE_ALSO = ("check", "get")


def run_mend(
    ctx: typer.Context,
    dry_run: DryRun = False,
    yes: Yes = False,
    quarantine: Quarantine = None,
    no_quarantine: NoQuarantine = False,
) -> Result:
    """Finish or drop a compaction that was cut short.

    A broker does not start where records and units of a compacted topic are in files of different names, or where a
    file named .delete is left. This gives a file its name back where nothing replaced it, makes lost units from the
    records, moves up what the run had not moved yet, and takes away what is left over. Everything removed goes to
    quarantine.

    After a clean stop it also copies the messages that have no copy, as a broker's dispatch would have: no start of a
    broker does. A queue with other faults is mended first; run it again for its messages.
    """
    session: Session = ctx.obj
    consent = ChangeOptions.given(session, dry_run=dry_run, yes=yes, quarantine=quarantine, no_quarantine=no_quarantine)

    from store.structures import plan_compaction_mend

    with (
        locked(session, take=not dry_run) as (layout, fs),
        staging(layout, fs, "compaction", dry_run=dry_run) as folder,
    ):
        return run_change(session, "rebuild compaction", plan_compaction_mend(layout, fs, folder), consent)
