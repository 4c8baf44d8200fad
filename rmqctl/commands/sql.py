"""sql: ask the tables of a store, on Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqctl.context import Session
from rmqctl.result import Result, Table
from rmqctl.spark import Master, Remote, Stores, addresses, spark_session

EXAMPLES = (
    'rmqctl --store /data/store sql "select topic, count(*), sum(size) from messages group by topic"',
    'rmqctl sql --store /mnt/a --store /mnt/b "select store, max(log_offset) from messages group by store"',
)


def run(
    ctx: typer.Context,
    text: Annotated[
        str,
        typer.Argument(metavar="SQL", help="A query over messages, consumequeue, index, segments, anomalies."),
    ],
    stores: Stores = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Print so many rows at most.")] = 1000,
    master: Master = None,
    remote: Remote = None,
) -> Result:
    """Query stores with SQL, on Spark.

    The tables are messages, consumequeue, index, segments and anomalies.
    """
    session: Session = ctx.obj

    from store.disk.store_reader import StoreReader
    from store.spark.query import query
    from store.tables.query_text import check_is_query

    check_is_query(text)
    for address in addresses(session, stores):
        StoreReader(address).check_is_store()
    with spark_session(session, master, remote) as spark, session.progress("asking", unit="tasks") as bar:
        columns, rows = query(spark, addresses(session, stores), text, limit=limit, progress=bar.update)
    if len(rows) == limit:
        session.note(f"only the first {limit} rows; see --limit")
    return Result("sql", {"row_count": len(rows)}, [Table("rows", rows, columns)])
