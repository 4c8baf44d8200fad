"""quarantine: list and purge files that changing commands removed."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqctl.changing import KeptIn, Yes
from rmqctl.completion import complete_change
from rmqctl.context import Session
from rmqctl.exit_codes import DECLINED
from rmqctl.result import Result, Table
from rmqctl.show import count, show_bytes

EXAMPLES = {
    "quarantine list": ("rmqctl --store /data/store quarantine list",),
    "quarantine purge": (
        "rmqctl --store /data/store quarantine purge --dry-run",
        "rmqctl --store /data/store quarantine purge 20261121T044200.123-recover",
        "rmqctl --store /data/store quarantine purge --yes",
    ),
}
SEE_ALSO = ("undo", "clean-expired")
FILES = (".rmqctl", "lock")
EMPTY = "the quarantine is empty"


def run_list(ctx: typer.Context, quarantine: KeptIn = None) -> Result:
    """List the changes that can be undone, oldest first."""
    from store.change import list_quarantine

    session: Session = ctx.obj
    root, fs = session.store.reached
    entries = list_quarantine(root, quarantine=quarantine, fs=fs)
    if not entries:
        # Nothing is an answer about a store only.
        session.store.open_reached()
    rows = [
        {
            "change_id": entry.id,
            "command": entry.command,
            "state": entry.state,
            "time_ms": entry.time_ms,
            "file_count": entry.file_count,
            "size_bytes": entry.size,
        }
        for entry in entries
    ]
    shown = ("change_id", "state", "time_ms", "file_count", "size_bytes")
    verdict = f"{count(len(rows), 'change')} in the quarantine" if rows else EMPTY
    return Result("quarantine list", {}, [Table("changes", rows, shown)], verdict=verdict)


def run_purge(
    ctx: typer.Context,
    change_ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID...", help="Only these changes.", autocompletion=complete_change)
    ] = None,
    quarantine: KeptIn = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be deleted, and delete nothing.")
    ] = False,
    yes: Yes = False,
) -> Result:
    """Delete files in quarantine for good.

    Their changes can no longer be undone. Without an ID the whole quarantine is deleted.
    """
    from rmqctl.staged import locked
    from store.change import list_quarantine, purge

    session: Session = ctx.obj
    with locked(session, take=not dry_run) as (layout, fs):
        kept = list_quarantine(layout.root, quarantine=quarantine, fs=fs)
        entries = [one for one in kept if not change_ids or one.id in change_ids]
        if not (entries or change_ids):
            return Result("quarantine purge", {"freed_bytes": 0}, verdict=EMPTY)
        if entries and not (dry_run or yes or session.environment.can_ask):
            raise typer.BadParameter("this deletes files for good: give --yes, or look first with --dry-run")
        files, size = sum(one.file_count for one in entries), show_bytes(sum(one.size for one in entries))
        what = f"{count(files, 'file')} of {count(len(entries), 'change')}, {size}"
        if entries:
            session.note(f"note: {what} in the quarantine: {', '.join(one.id for one in entries)}")
        if entries and dry_run:
            return Result("quarantine purge", {"freed_bytes": 0}, verdict=f"would delete {what} for good")
        if entries and not yes and not session.ask(f"Delete {what} for good?"):
            return Result("quarantine purge", {"freed_bytes": 0}, exit_code=DECLINED, verdict="nothing was deleted")
        with session.interrupts.deferred():
            freed = purge(layout.root, change_ids or None, quarantine=quarantine, fs=fs)
    return Result("quarantine purge", {"freed_bytes": freed}, verdict=f"{what} deleted")
