"""export: messages as Parquet, JSON lines or CSV, on Spark."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rmqctl.context import Session
from rmqctl.result import Result
from rmqctl.spark import Master, Remote, Stores, addresses, spark_session

EXAMPLES = (
    "rmqctl --store /data/store export --to /data/messages --as parquet --partition-by topic,day",
    "rmqctl --store /data/store export --to orders --as jsonl --where \"topic = 'Orders' and queue_id = 3\"",
)


class ExportFormat(StrEnum):
    """Values of --as."""

    PARQUET = "parquet"
    JSONL = "jsonl"
    CSV = "csv"


def run(
    ctx: typer.Context,
    to: Annotated[Path, typer.Option(metavar="DIR", help="A folder that does not exist yet.")],
    kind: Annotated[ExportFormat, typer.Option("--as", help="The files' format.")] = ExportFormat.PARQUET,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Which messages; day is a column too.", show_default="all")
    ] = None,
    partition_by: Annotated[str, typer.Option(metavar="NAMES", help="Columns, with commas; also day.")] = "",
    no_body: Annotated[bool, typer.Option("--no-body", help="Leave the bodies out.")] = False,
    stores: Stores = None,
    master: Master = None,
    remote: Remote = None,
) -> Result:
    """Write messages as files. The folder appears when everything is written, or not at all."""
    session: Session = ctx.obj

    from store.disk.store_reader import StoreReader
    from store.spark.query import check_export, export

    for address in addresses(session, stores):
        StoreReader(address).check_is_store()
    columns = [name.strip() for name in partition_by.split(",") if name.strip()]
    check_export(to, kind.value, columns, with_body=not no_body, store_count=len(addresses(session, stores)))
    with spark_session(session, master, remote) as spark, session.progress("exporting", unit="tasks") as bar:
        export(
            spark, addresses(session, stores), to, kind.value,
            where=where, partition_by=columns, with_body=not no_body, progress=bar.update,
        )  # fmt: skip
    files = [path for path in to.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return Result(
        "export", {"folder": str(to), "files": len(files), "size_bytes": sum(p.stat().st_size for p in files)}
    )
