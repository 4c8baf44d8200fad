"""usage: messages and bytes of the commit log by topic, queue, tag or day."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Annotated

import typer

from rmqctl.backend import SPARK_ABOVE_GIB, Engine, EngineOption, Master, Remote, SparkAbove, Stores
from rmqctl.context import Session
from rmqctl.result import Result, Table
from rmqctl.show import count, show_bytes, show_value
from rmqctl.store_times import Since, Until, and_store_times

EXAMPLES = (
    "rmqctl --store /data/store usage",
    "rmqctl --store /data/store usage --by topic,day",
    "rmqctl usage --store '/mnt/broker-*' --by topic",
)
SEE_ALSO = ("timeline", "sql")
FILES = ("commitlog",)
LABELS = ("store", "topic", "queue_id", "tag", "day")
MOST_GROUPS = 1_000_000


def run(
    ctx: typer.Context,
    by: Annotated[str, typer.Option(metavar="NAMES", help="One or more of topic,queue,tag,day.")] = "topic",
    since: Since = None,
    until: Until = None,
    stores: Stores = None,
    engine: EngineOption = Engine.AUTO,
    master: Master = None,
    remote: Remote = None,
    spark_above: SparkAbove = SPARK_ABOVE_GIB,
) -> Result:
    """Show disk usage.

    Messages, bytes, share and times by topic, queue, tag or day, the largest first; with several stores also by store.
    """
    session: Session = ctx.obj

    from rmqctl.querying import open_tables
    from store.query.tables import usage_query, usage_rows

    names = [name.strip() for name in by.split(",") if name.strip()]
    where = and_store_times(session, None, since, until)
    usage_query(names)
    with open_tables(session, stores, engine, master, remote, spark_above, outer=True) as tables:
        _, answer = tables.query(usage_query(names, by_store=len(tables.stores) > 1, where=where), MOST_GROUPS + 1)
    if len(answer) > MOST_GROUPS:
        session.note(f"only the {MOST_GROUPS:,} largest groups are read, shown and added up")
    rows = usage_rows(answer[:MOST_GROUPS])
    facts = {
        "message_count": sum(row["message_count"] for row in rows),
        "size_bytes": sum(row["size_bytes"] for row in rows),
    }
    verdict = f"{count(facts['message_count'], 'message')}, {show_bytes(facts['size_bytes'])}"
    if len(rows) > 1:
        verdict += f"; the most in {_group(rows[0])}, {show_value('share_percent', rows[0]['share_percent'])}"
    return Result("usage", facts, [Table("usage", rows)], verdict=verdict, labels=LABELS)


def _group(row: Mapping[str, object]) -> str:
    """Return the names that a row counts for."""
    parts = {name: str(value) for name, value in takewhile(lambda one: one[0] != "message_count", row.items())}
    queue = [parts.pop(name) for name in ("topic", "queue_id") if name in parts]
    if len(queue) == 1 and "queue_id" in row:
        queue = [f"queue {queue[0]}"]
    return ", ".join(part for part in ("/".join(queue), *parts.values()) if part)
