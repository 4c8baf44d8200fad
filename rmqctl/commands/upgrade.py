"""upgrade: the consequences of another broker version for a store."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqctl.commands.simulate import simulated, verdict_of
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.hints import hint_for
from rmqctl.options import StartingLine
from rmqctl.result import Result, Table
from rmqctl.show import count

EXAMPLES = {
    "upgrade show": (
        "rmqctl --store /data/store upgrade show --to 5.5",
        "rmqctl --store /data/store --format json upgrade show --to 5.3",
    ),
}
SEE_ALSO = ("simulate", "info", "rebuild")
EXIT_CODES = {1: "The other version does not start, loses something, or needs a setting."}


def run_show(
    ctx: typer.Context,
    to: Annotated[StartingLine, typer.Option(help="The version of the other broker.", show_default=False)],
) -> Result:
    """Show the consequences of an upgrade or a downgrade.

    Shows the start of the other version's broker on this store, as `simulate` does. Notes list settings that it needs.
    They also list messages that it would deliver twice, deliver although deleted, or never find. Each has a count and a
    remedy. Nothing is written. For a backup, restore a store first.
    """
    session: Session = ctx.obj
    if to is StartingLine.ALL:
        raise typer.BadParameter("give one version", param_hint="--to")

    from store.verbs import review_upgrade

    start = simulated(session, to.value)
    root, fs = session.store.reached
    found = review_upgrade(root, to.value, settings=session.store.settings(), fs=fs)
    notes = [*found.notes, *start.traps]
    rows = [{"name": note.code, "detail": note.detail, "remedy": hint_for(note.code, note.subject)} for note in notes]
    is_well = start.starts and start.lost.is_empty and not rows
    verdict = verdict_of(start) + (f"; {count(len(rows), 'note')}" if rows else "")
    facts = {"from": found.found, "to": found.to, "starts": start.starts, "log_end": start.log_end}
    return Result("upgrade show", facts, [Table("notes", rows)], OK if is_well else FINDINGS, verdict)
