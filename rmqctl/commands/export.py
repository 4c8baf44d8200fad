"""export: messages as Parquet, JSON lines or CSV, in this process or on Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
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
    seen = _Seen()
    to_line = partial(
        _message_lines(session, to), with_body=not no_body, stored=stored_body, on_problem=seen.take_problem
    )
    if only_sound:
        where = f"({where}\n) and crc_ok" if where is not None else "crc_ok"
    condition = and_store_times(session, where, since, until)
    to_lines = RecordLines(to_line, with_body=not no_body).texts
    form = kind.value, condition, columns, not no_body
    export = Export(*form, to_line, to_lines, limit, seen.take_inner, seen.null_times.update, seen.take_problems)
    check_export(to, export, len(stores_of(session, stores)))
    with open_tables(session, stores, engine, master, remote, spark_above, outer=outer) as tables:
        if str(to) == STDOUT:
            session.environment.stdout.writelines(tables.export_lines(export))
        else:
            tables.export(to, export)
    seen.warn(session, kind, stored=stored_body)
    return _result(to) if str(to) != STDOUT else None


def _message_lines(session: Session, to: Path) -> Callable[..., str]:
    """Return the function that makes lines for the target."""
    from store.query.tables import STDOUT

    encoding = getattr(session.environment.stdout, "encoding", None) if str(to) == STDOUT else None
    return partial(message_line, encoding=encoding or "utf-8")


class _Seen:
    """Counts the messages of an export to warn of."""

    def __init__(self) -> None:
        self.null_times = Counter[str]()
        self._inner = self._problems = 0

    def take_inner(self, count: int) -> None:
        """Count messages that lay inside records of several."""
        self._inner += count

    def take_problems(self, count: int) -> None:
        """Count bodies that cannot be decompressed."""
        self._problems += count

    def take_problem(self, problem: str) -> None:
        """Count the body of one line."""
        self._problems += 1

    def warn(self, session: Session, kind: ExportFormat, *, stored: bool) -> None:
        """Warn of the counted messages; lines with stored bodies have no problem."""
        if self._inner:
            lay = f"{count(self._inner, 'message')} lay inside records of several"
            kept = "--outer keeps such records for put --as-stored"
            session.warn(f"{lay}, and put as single messages they differ: {kept}")
        if self._problems and not (stored and kind is ExportFormat.JSONL):
            name = "body_state" if kind is ExportFormat.JSONL else "body_problem"
            bodies, are = ("one body", "is") if self._problems == 1 else (f"{self._problems} bodies", "are")
            session.warn(f"{bodies} cannot be decompressed, and {are} written as stored ({name})")
        for name, number in sorted(self.null_times.items()):
            if number:
                empty = f"{name} is left empty for {count(number, 'message')}: no table holds such a time"
                session.warn(f"{empty}, and `put --input` refuses these rows; export them as jsonl")


def _result(folder: Path) -> Result:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    size = sum(path.stat().st_size for path in files)
    facts = {"folder": str(folder), "file_count": len(files), "size_bytes": size}
    return Result("export", facts, verdict=f"{count(len(files), 'file')} with {show_bytes(size)} written")
