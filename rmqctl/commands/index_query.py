"""index-query: messages by key, through the index files."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.messages import BodyOption, message_row, shown_columns
from rmqctl.result import Result, Table

EXAMPLES = (
    "rmqctl --store /data/store index-query OrderTopic order-4711",
    "rmqctl --store /data/store --format json index-query OrderTopic order-4711 --begin -3d --max 5",
)
END_OF_TIME_MS = (1 << 63) - 1


def run(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="One of the message's keys, or its unique key.")],
    begin: Annotated[str | None, typer.Option(metavar="TIME", help="Stored at this time or later.")] = None,
    end: Annotated[str | None, typer.Option(metavar="TIME", help="Stored at this time or earlier.")] = None,
    max_count: Annotated[int, typer.Option("--max", min=1, max=64, metavar="N", help="Messages at most.")] = 32,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Also show messages whose key only has the same hash.")
    ] = False,
    body: BodyOption = None,
) -> Result:
    """Find messages by key.

    Every hit is compared with the record itself, because the index holds hashes only; --unverified leaves that out,
    as a broker does. Exit code 1 when nothing was found.
    """
    session: Session = ctx.obj
    begin_ms = session.parse_time(begin, "--begin") if begin is not None else 0
    end_ms = session.parse_time(end, "--end") if end is not None else END_OF_TIME_MS
    if begin_ms > end_ms:
        raise typer.BadParameter("--begin is later than --end")
    answer = session.open_store().query(topic, key, max_count, begin_ms, end_ms, verify=not unverified)
    if not answer.messages:
        session.note(f"no message of {topic} has the key {key}")
    rows = [message_row(message, body, session.format) for message in answer.messages]
    columns = ("queue_id", *shown_columns(body))
    tables = [Table("messages", rows, columns), Table("index_files", _files(answer))]
    return Result("index-query", {}, tables, OK if rows else FINDINGS)


def _files(answer: Any) -> list[dict[str, Any]]:
    return [{"file": name} for name in answer.index_files]
