"""get: messages of one queue, or one message by its id or log offset."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.messages import BodyEncoding, BodyOption, message_row, shown_columns
from rmqctl.output import Format
from rmqctl.programs import to_json
from rmqctl.reading import QueueReader, RecordWriter
from rmqctl.result import Result, Table
from rmqctl.show import show_value

if TYPE_CHECKING:
    from store import MessageStore, StoredMessage

EXAMPLES = (
    "rmqctl --store /data/store get OrderTopic --queue 3 --offset 100 --max 10",
    "rmqctl --store /data/store get OrderTopic --since -15m --tags 'paid || sent'",
    "rmqctl --store /data/store get OrderTopic --sql \"amount > 5 AND region IN ('eu', 'us')\"",
    "rmqctl --store /data/store get --msg-id 7F00000100002A9F0000000000000245 --raw > record.bin",
)
FOLLOW_EVERY_S = 0.5


def run(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="Topic.")] = None,
    queue: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Queue id; one call reads one queue.", show_default="0"),
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Queue offset to begin at.", show_default="the queue's first"),
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Begin at this store time instead.")] = None,
    msg_id: Annotated[str | None, typer.Option(metavar="ID", help="The one message with this id.")] = None,
    log_offset: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The one message at this log offset.")
    ] = None,
    max_count: Annotated[int, typer.Option("--max", min=1, metavar="M", help="Messages at most.")] = 32,
    tags: Annotated[str | None, typer.Option(metavar="EXPR", help="Only these tags: 'A || B'.")] = None,
    sql: Annotated[str | None, typer.Option(metavar="EXPR", help="Only what this SQL92 expression selects.")] = None,
    one_call: Annotated[
        bool,
        typer.Option("--one-call", help="Exactly what one broker call gives: its limits, one queue file."),
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing what arrives, until Ctrl-C.")] = False,
    body: BodyOption = None,
    raw: Annotated[bool, typer.Option("--raw", help="Write the stored records themselves to stdout.")] = False,
) -> Result | int:
    """Read messages of one queue, or one message.

    Reads on over queue files until --max or the end of the queue. Exit code 1 when nothing was found.
    Nothing is written, so it works on a read-only mount and beside a live broker.
    """
    session: Session = ctx.obj
    _check_contradictions(ctx)
    if msg_id is not None or log_offset is not None:
        return _get_one(session, _place_of(msg_id, log_offset), body, raw)
    if topic is None:
        raise typer.BadParameter("give a TOPIC, or --msg-id or --log-offset")
    since_ms = session.parse_time(since, "--since") if since is not None else None
    message_filter = _filter(tags, sql)
    opened = session.open_store()
    if queue is None:
        _tell_of_other_queues(session, opened, topic)
    reader = QueueReader(
        opened, topic, queue or 0, _start(opened, topic, queue or 0, offset, since_ms), max_count,
        message_filter=message_filter, one_call=one_call, endless=follow, warn=session.warn,
    )  # fmt: skip
    return _follow(session, reader, body, raw) if follow else _get_queue(session, reader, body, raw)


def _check_contradictions(ctx: typer.Context) -> None:
    given = {name for name, value in ctx.params.items() if value is not None and value is not False}
    if len(given & {"offset", "since", "msg_id", "log_offset"}) > 1:
        raise typer.BadParameter("--offset, --since, --msg-id and --log-offset exclude one another")
    if {"tags", "sql"} <= given:
        raise typer.BadParameter("give --tags or --sql, not both")
    if given & {"msg_id", "log_offset"} and given & {"tags", "sql", "one_call", "follow"}:
        raise typer.BadParameter("one message is asked for; filters, --one-call and --follow do not go with it")


def _place_of(msg_id: str | None, log_offset: int | None) -> int:
    from store.formats.message import decode_message_id

    if msg_id is not None:
        return decode_message_id(msg_id)[1]
    assert log_offset is not None
    return log_offset


def _filter(tags: str | None, sql: str | None) -> Any:
    from store.reading.filter import TagExpression, compile_sql

    if tags is not None:
        return TagExpression(tags)
    return compile_sql(sql) if sql is not None else None


def _start(opened: MessageStore, topic: str, queue_id: int, offset: int | None, since_ms: int | None) -> int:
    if since_ms is not None:
        return opened.offset_by_time(topic, queue_id, since_ms)
    return offset if offset is not None else opened.min_offset(topic, queue_id)


def _tell_of_other_queues(session: Session, opened: MessageStore, topic: str) -> None:
    others = [state.queue_id for state in opened.queues() if state.topic == topic and state.queue_id]
    if others:
        names = ", ".join(map(str, others[:8])) + (", …" if len(others) > 8 else "")
        session.note(f"only queue 0 is read; {topic} also has {names} (--queue)")


def _get_queue(session: Session, reader: QueueReader, body: BodyEncoding | None, raw: bool) -> Result | int:
    if raw:
        _write_raw(session, reader.store, reader.messages())
        return reader.exit_code()
    rows = (message_row(message, body, session.format) for message in reader.messages())
    return Result("get", reader.facts, [Table("messages", rows, shown_columns(body))], reader.exit_code)


def _get_one(session: Session, log_offset: int, body: BodyEncoding | None, raw: bool) -> Result | int:
    opened = session.open_store()
    message = opened.lookup(log_offset)
    exit_code = OK if message is not None else FINDINGS
    messages = [message] if message is not None else []
    if raw:
        _write_raw(session, opened, messages)
        return exit_code
    rows = [message_row(message, body, session.format) for message in messages]
    facts = {"status": "FOUND" if messages else "NOT_FOUND"}
    return Result("get", facts, [Table("messages", rows, ("topic", "queue_id", *shown_columns(body)))], exit_code)


def _write_raw(session: Session, opened: MessageStore, messages: Iterable[StoredMessage]) -> None:
    """The records go from file to stdout inside the kernel."""
    stdout = session.environment.stdout
    stdout.flush()
    with RecordWriter(opened, stdout.fileno()) as writer:
        for message in messages:
            writer.write(message.log_offset, message.size)


def _follow(session: Session, reader: QueueReader, body: BodyEncoding | None, raw: bool) -> int:
    """Prints messages as they arrive, one a line, until a signal ends it."""
    while True:
        if raw:
            _write_raw(session, reader.store, reader.messages())
        else:
            for message in reader.messages():
                session.environment.stdout.write(_line(message_row(message, body, session.format), session.format))
                session.environment.stdout.flush()
        time.sleep(FOLLOW_EVERY_S)
        reader.store.refresh()


def _line(row: dict[str, Any], form: Format) -> str:
    if form.is_for_programs:
        return to_json(row) + "\n"
    shown = (show_value(name, row.get(name)) for name in itertools.chain(["queue_offset"], *[shown_columns(None)[1:]]))
    return "  ".join(shown) + "\n"
