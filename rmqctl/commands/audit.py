"""audit: the findings of check, on Spark."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rmqctl.commands.check import COLUMNS
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.result import Result, Table
from rmqctl.spark import Master, Remote, Stores, addresses, spark_session

EXAMPLES = (
    "rmqctl --store /data/store audit --master 'local[8]'",
    "rmqctl audit --store /mnt/broker-a --store /mnt/broker-b --master spark://head:7077",
)


def run(
    ctx: typer.Context,
    stores: Stores = None,
    sample: Annotated[
        float, typer.Option(min=0, max=100, metavar="PERCENT", help="Check so many of the segments.")
    ] = 100,
    master: Master = None,
    remote: Remote = None,
) -> Result:
    """Find what is wrong with large stores, on Spark.

    Finds what check finds. Every queue, index file and segment is a task of its own. Exit code 1 when
    something was found.
    """
    session: Session = ctx.obj

    from store.check.check import CheckOptions
    from store.disk.store_reader import StoreReader
    from store.spark.audit import audit

    rows: list[dict[str, Any]] = []
    for address in addresses(session, stores):
        StoreReader(address).check_is_store()
    with spark_session(session, master, remote) as spark, session.progress("auditing", unit="tasks") as bar:
        for address in addresses(session, stores):
            found = audit(spark, address, CheckOptions(sample_percent=sample), bar.update)
            rows += [{name: getattr(finding, name) for name in COLUMNS} for finding in found]
    kinds = sorted({row["kind"] for row in rows})
    counts = [{"kind": kind, "count": sum(r["count"] for r in rows if r["kind"] == kind)} for kind in kinds]
    tables = [Table("findings", rows, COLUMNS), Table("kinds", counts, ("kind", "count"))]
    return Result("audit", {"finding_count": len(rows)}, tables, FINDINGS if rows else OK)
