"""truncate-dirty: truncate the log, its queues and its index at an offset."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqctl.changing import ChangeOptions, ForceEmptyLog, changes_store, run_change
from rmqctl.context import Session
from rmqctl.result import Result
from rmqctl.staged import planning

EXAMPLES = (
    "rmqctl --store /data/store truncate-dirty --dry-run",
    "rmqctl --store /data/store truncate-dirty --offset 1073741824 --yes",
)
SEE_ALSO = ("recover", "undo")


@changes_store
def run(
    ctx: typer.Context,
    consent: ChangeOptions,
    offset: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Log offset to truncate at.", show_default="the valid end"),
    ] = None,
    force_empty_log: ForceEmptyLog = False,
) -> Result:
    """Truncate the log, its queues and index at an offset.

    Without --offset the log is read from its beginning, and truncated at the first invalid record. An offset inside of
    a record is refused. Consumer groups past the new end of a queue continue there.
    """
    session: Session = ctx.obj
    from store import plan_truncation

    with planning(session, consent, "truncate") as opened, session.progress("reading the log") as bar:
        change = plan_truncation(opened, offset, force_empty_log=force_empty_log, progress=bar.update)
        return run_change(session, "truncate-dirty", change, consent)
