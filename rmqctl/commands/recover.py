"""recover: what a broker does at its start, as a plan that can be looked at first."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rmqctl.changing import Consent, DryRun, NoQuarantine, Quarantine, Yes, carry_out
from rmqctl.context import Session
from rmqctl.planning import planning
from rmqctl.result import Result

EXAMPLES = (
    "rmqctl --store /data/store recover --dry-run",
    "rmqctl --store /data/store recover --abnormal --yes",
    "rmqctl --store /data/store recover --abnormal --keep-index --yes",
)


class Compat(StrEnum):
    """Values of --compat."""

    V4_9 = "4.9"
    V5_3 = "5.3"


def run(
    ctx: typer.Context,
    normal: Annotated[bool, typer.Option("--normal", help="As after a clean shutdown.")] = False,
    abnormal: Annotated[bool, typer.Option("--abnormal", help="As after a crash.")] = False,
    compat: Annotated[
        Compat | None,
        typer.Option(help="The broker line whose rules hold.", show_default="the line that wrote the store"),
    ] = None,
    keep_index: Annotated[
        bool, typer.Option("--keep-index", help="Rebuild the index files that a broker would throw away.")
    ] = False,
    cold: Annotated[
        bool, typer.Option("--cold", help="Leave nothing of the log in the page cache, for the broker's sake.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    quarantine: Quarantine = None,
    no_quarantine: NoQuarantine = False,
) -> Result:
    """Recover a store as a broker does at its start.

    Chooses the starting segment by the checkpoint, walks the log with CRC to its valid end, cuts what is dirty, cuts or
    rebuilds consume queues and index, writes the checkpoint, removes the abort marker. Without --normal or --abnormal
    the abort marker decides.
    """
    session: Session = ctx.obj
    if normal and abnormal:
        raise typer.BadParameter("give --normal or --abnormal, not both")
    consent = Consent.given(
        session, dry_run=dry_run, yes=yes, quarantine=quarantine, no_quarantine=no_quarantine
    )

    from store.recovery import plan_recovery

    mode = "normal" if normal else "abnormal" if abnormal else "auto"
    line = compat.value if compat else None
    with planning(session, consent, line) as parts, session.progress("reading the log") as bar:
        change = plan_recovery(parts, mode=mode, keep_index=keep_index, cold=cold, progress=bar.update)
        return carry_out(session, "recover", change, consent)
