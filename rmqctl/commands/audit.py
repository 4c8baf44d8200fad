"""audit: the findings of check in a fleet of stores, in this process or on Spark."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rmqctl.backend import SPARK_ABOVE_GIB, Engine, EngineOption, Master, Remote, SparkAbove, Stores
from rmqctl.commands.check import COLUMNS
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.result import Result, Table
from rmqctl.show import count

EXAMPLES = (
    "rmqctl audit --store '/mnt/*/store'",
    "rmqctl --store /data/store audit --master 'local[8]'",
    "rmqctl audit --store /mnt/broker-a --store /mnt/broker-b --master spark://head:7077",
)
SEE_ALSO = ("check", "sql")
EXIT_CODES = {1: "Something was found."}
FILES = ("commitlog", "consumequeue", "index", "checkpoint")


def run(
    ctx: typer.Context,
    stores: Stores = None,
    sample: Annotated[
        float, typer.Option(min=0, max=100, metavar="PERCENT", help="Check so many of the segments.")
    ] = 100,
    engine: EngineOption = Engine.AUTO,
    master: Master = None,
    remote: Remote = None,
    spark_above: SparkAbove = SPARK_ABOVE_GIB,
) -> Result:
    """Find damage in many or large stores.

    Finds what check finds, in each of the stores. On Spark every queue, index file and segment is a task of its own.
    Exit code 1 when something was found.
    """
    session: Session = ctx.obj

    from rmqctl.querying import open_tables
    from store import CheckOptions

    rows: list[dict[str, Any]] = []
    with open_tables(session, stores, engine, master, remote, spark_above, any_size=True) as tables:
        for store in tables.stores:
            found = tables.check(store, CheckOptions(sample_percent=sample, settings=session.store.settings()))
            rows += [{name: getattr(finding, name) for name in COLUMNS} for finding in found]
    kinds = sorted({row["kind"] for row in rows})
    counts = [{"kind": kind, "count": sum(r["count"] for r in rows if r["kind"] == kind)} for kind in kinds]
    verdict = count(len(rows), "finding") if rows else "nothing wrong"
    shown = [Table("findings", rows, COLUMNS), Table("kinds", counts, ("kind", "count"))]
    return Result("audit", {"finding_count": len(rows)}, shown, FINDINGS if rows else OK, verdict)
