"""usage: who fills the commit log."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqctl.context import Session
from rmqctl.result import Result, Table

EXAMPLES = (
    "rmqctl --store /data/store usage",
    "rmqctl --store /data/store usage --by topic,day",
)


def run(
    ctx: typer.Context,
    by: Annotated[str, typer.Option(metavar="NAMES", help="Some of topic, queue, tag, day, with commas.")] = "topic",
) -> Result:
    """Show what uses the disk.

    Messages, bytes, share and times by topic, queue, tag or day, largest first.
    """
    session: Session = ctx.obj

    from store.disk.store_reader import StoreReader
    from store.tables.usage import usage

    files = StoreReader(session.options.uri or str(session.root))
    names = [name.strip() for name in by.split(",") if name.strip()]
    with session.progress("reading the log") as bar:
        rows = usage(files, names, bar.update)
    facts = {
        "messages": sum(row["messages"] for row in rows),
        "size_bytes": sum(row["size_bytes"] for row in rows),
    }
    return Result("usage", facts, [Table("usage", rows)])
