"""export: messages as Parquet, JSON lines or CSV, in this process or on Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rmqctl.backend import SPARK_ABOVE_GIB, Engine, EngineOption, Master, Remote, SparkAbove, Stores, stores_of
from rmqctl.context import Session
from rmqctl.messages import OnlySound, Outer, StoredBody, message_line
from rmqctl.result import Result
from rmqctl.show import count, show_bytes
from rmqctl.store_times import Since, Until, and_store_times

EXAMPLES = (
    "rmqctl --store /data/store export --to /data/messages --as parquet --partition-by topic,day",
    "rmqctl --store /data/store export --to orders --as jsonl --where \"topic = 'Orders' and queue_id = 3\"",
    "rmqctl --store /data/store export --to - --as jsonl | rmqctl --store /data/other put --input - --as-stored",
)
SEE_ALSO = ("sql", "get", "put")
FILES = ("commitlog",)
Limit = Annotated[
    int | None, typer.Option(min=1, max=2**31 - 1, metavar="N", help="Messages at most.", show_default="all")
]
"""Spark takes one of 32 bits."""


class ExportFormat(StrEnum):
    """Values of --as."""

    PARQUET = "parquet"
    JSONL = "jsonl"
    CSV = "csv"


def run(
    ctx: typer.Context,
    to: Annotated[
        Path, typer.Option(metavar="DIR", help="A folder that does not exist yet, or - for lines on stdout.")
    ],
    kind: Annotated[ExportFormat, typer.Option("--as", help="The files' format.")] = ExportFormat.PARQUET,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Which messages; day is a column too.", show_default="all")
    ] = None,
    partition_by: Annotated[str, typer.Option(metavar="NAMES", help="Columns, with commas; also day.")] = "",
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    no_body: Annotated[bool, typer.Option("--no-body", help="Leave the bodies out.")] = False,
    stored_body: StoredBody = False,
    only_sound: OnlySound = False,
    stores: Stores = None,
    engine: EngineOption = Engine.AUTO,
    master: Master = None,
    remote: Remote = None,
    spark_above: SparkAbove = SPARK_ABOVE_GIB,
    outer: Outer = False,
) -> Result | None:
    """Write messages as files.

    The folder appears when everything is written, or not at all. JSON lines hold the message object of `get`. Parquet
    and CSV hold the columns of the table messages, with bodies as stored. `put --input` reads all of them. crc_ok is
    false for a body that does not match the record's CRC. body_problem (body_state in JSON lines) is set for a body
    that cannot be decompressed. A record of several messages (5.x) becomes a line for each of them; with --outer
    it is one line, and `put --as-stored` stores the record again. CSV keeps text as stored, even if a spreadsheet would
    take it as a formula; `get --format csv` escapes it.
    """
    session: Session = ctx.obj

    from rmqctl.querying import open_tables
    from store.query.tables import STDOUT, Export, check_export
    from store.reading import RecordLines

    columns = [name.strip() for name in partition_by.split(",") if name.strip()]
    encoding = getattr(session.environment.stdout, "encoding", None) if str(to) == STDOUT else None
    problems = _Problems()
    to_line = partial(
        message_line, with_body=not no_body, stored=stored_body, encoding=encoding or "utf-8", on_problem=problems.note
    )
    if only_sound:
        where = f"({where}\n) and crc_ok" if where is not None else "crc_ok"
    condition = and_store_times(session, where, since, until)
    inner, null_times = list[int](), Counter[str]()
    to_lines = RecordLines(to_line, with_body=not no_body).texts
    form = kind.value, condition, columns, not no_body
    counting = inner.append, null_times.update, problems.add
    export = Export(*form, to_line, to_lines, limit, *counting)
    check_export(to, export, len(stores_of(session, stores)))
    with open_tables(session, stores, engine, master, remote, spark_above, outer=outer) as tables:
        if str(to) == STDOUT:
            session.environment.stdout.writelines(tables.export_lines(export))
            _warn_of_inner(session, sum(inner))
            problems.warn(session, kind, stored=stored_body)
            return None
        tables.export(to, export)
    _warn_of_inner(session, sum(inner))
    problems.warn(session, kind, stored=stored_body)
    _warn_of_null_times(session, null_times)
    return _result(to)


class _Problems:
    """Counts the bodies that cannot be decompressed."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, count: int) -> None:
        """Count bodies of a table."""
        self._count += count

    def note(self, problem: str) -> None:
        """Count the body of a line."""
        self._count += 1

    def warn(self, session: Session, kind: ExportFormat, *, stored: bool) -> None:
        """Warn of the bodies, unless lines with stored bodies were asked for."""
        name = "body_state" if kind is ExportFormat.JSONL else "body_problem"
        if self._count and not (stored and kind is ExportFormat.JSONL):
            bodies, are = ("one body", "is") if self._count == 1 else (f"{self._count} bodies", "are")
            session.warn(f"{bodies} cannot be decompressed, and {are} written as stored ({name})")


def _result(folder: Path) -> Result:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    size = sum(path.stat().st_size for path in files)
    facts = {"folder": str(folder), "file_count": len(files), "size_bytes": size}
    return Result("export", facts, verdict=f"{count(len(files), 'file')} with {show_bytes(size)} written")


def _warn_of_inner(session: Session, inner: int) -> None:
    if inner:
        lay = f"{count(inner, 'message')} lay inside records of several"
        session.warn(f"{lay}, and put as single messages they differ: --outer keeps such records for put --as-stored")


def _warn_of_null_times(session: Session, counts: Mapping[str, int]) -> None:
    for name, number in sorted(counts.items()):
        if number:
            empty = f"{name} is left empty for {count(number, 'message')}: no table holds such a time"
            session.warn(f"{empty}, and `put --input` refuses these rows; export them as jsonl")
