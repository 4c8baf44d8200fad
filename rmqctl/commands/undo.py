"""undo: bring back the files of a change."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqctl.changing import KeptIn
from rmqctl.completion import complete_change
from rmqctl.context import Session
from rmqctl.result import Result
from rmqctl.show import count
from rmqctl.staged import locked

EXAMPLES = (
    "rmqctl --store /data/store quarantine list",
    "rmqctl --store /data/store undo 20261121T044200.123-recover",
)
SEE_ALSO = ("quarantine list", "recover", "truncate-dirty", "clean-expired")
FILES = (".rmqctl", "lock")


def run(
    ctx: typer.Context,
    change_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="The change, as `quarantine list` shows it.", autocompletion=complete_change),
    ],
    quarantine: KeptIn = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Undo even if the store has changed since; changed files go to quarantine.",
        ),
    ] = False,
) -> Result:
    """Undo a change.

    Restores every file with its time. Refused if the store has changed since, unless --force is given. Always refused
    if it would destroy a record that was put since.
    """
    from store.change import undo

    session: Session = ctx.obj
    with locked(session) as (layout, fs), session.interrupts.deferred():
        undone = undo(layout.root, change_id, quarantine=quarantine, force=force, fs=fs, elsewhere=layout.commitlogs)
    if undone.set_aside:
        session.note(f"{count(len(undone.set_aside), 'changed file')} moved to {undone.set_aside[0].parent}")
    facts = {"change_id": change_id, "file_count": undone.file_count, "set_aside_count": len(undone.set_aside)}
    return Result("undo", facts, verdict=f"{count(undone.file_count, 'file')} as before {change_id}")
