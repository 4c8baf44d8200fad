"""sql: query the tables of stores, in this process or on Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqctl.backend import SPARK_ABOVE_GIB, Engine, EngineOption, Master, Remote, SparkAbove, Stores
from rmqctl.context import Session
from rmqctl.messages import Outer
from rmqctl.result import Result, Table
from rmqctl.show import count

EXAMPLES = (
    'rmqctl --store /data/store sql "select topic, count(*), sum(size) from messages group by topic"',
    'rmqctl sql --store /mnt/a --store /mnt/b "select store, max(log_offset) from messages group by store"',
    "rmqctl --store /data/store sql",
)
SEE_ALSO = ("export", "usage")
FILES = ("commitlog", "consumequeue", "index")


def run(
    ctx: typer.Context,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="SQL",
            help="A query over messages, consumequeue, index, segments, anomalies; without it a shell opens.",
            show_default=False,
        ),
    ] = None,
    stores: Stores = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Rows at most.")] = 1000,
    engine: EngineOption = Engine.AUTO,
    master: Master = None,
    remote: Remote = None,
    spark_above: SparkAbove = SPARK_ABOVE_GIB,
    outer: Outer = False,
) -> Result | int:
    """Query stores with SQL.

    The tables are messages, consumequeue, index, segments and anomalies. This process uses DuckDB, Spark its own SQL;
    --engine chooses, by default the size of the log. Times are timestamps in UTC, printed as ISO 8601.
    unix_millis(store_timestamp) is the store_timestamp_ms of other commands.
    """
    session: Session = ctx.obj

    from rmqctl.querying import open_tables, tell_of_bodies
    from store.query.tables import check_is_query

    if text is not None:
        check_is_query(text)
    with open_tables(session, stores, engine, master, remote, spark_above, outer=outer) as tables:
        if text is None:
            from rmqctl.shell import run_shell

            return run_shell(session, tables, limit)
        columns, rows = tables.query(text, limit)
    if len(rows) == limit:
        session.note(f"only the first {limit} rows; see --limit")
    tell_of_bodies(session, columns)
    facts = {"row_count": len(rows)}
    return Result("sql", facts, [Table("rows", rows, columns)], verdict=count(len(rows), "row"))
