"""index-query: messages by key, through the index files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.completion import complete_topic
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.hints import describe
from rmqctl.messages import BodyOption, MessageRows, OnlySound, Outer, StoredBody
from rmqctl.result import Result, Table
from rmqctl.show import count, did_you_mean

if TYPE_CHECKING:
    from store import MessageStore, QueryResult, StoredMessage
    from store.engine.serving import StoreClient

EXAMPLES = (
    "rmqctl --store /data/store index-query OrderTopic order-4711",
    "rmqctl --store /data/store --format json index-query OrderTopic order-4711 --begin -3d --max 5",
    "rmqctl --store /data/store index-query OrderTopic paid --tags",
)
EXIT_CODES = {1: "Nothing was found, or something of what was found is damaged."}
FILES = ("index", "commitlog", "checkpoint", "abort")
SEE_ALSO = ("get", "rebuild")
END_OF_TIME_MS = (1 << 63) - 1


def run(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic.", autocompletion=complete_topic)],
    key: Annotated[str, typer.Argument(metavar="KEY", help="One of the message's keys, or its unique key.")],
    by_tags: Annotated[bool, typer.Option("--tags", help="KEY is the tags of the messages (5.4 and later).")] = False,
    begin: Annotated[str | None, typer.Option(metavar="TIME", help="Stored at this time or later.")] = None,
    end: Annotated[str | None, typer.Option(metavar="TIME", help="Stored at this time or earlier.")] = None,
    max_count: Annotated[int, typer.Option("--max", min=1, max=64, metavar="N", help="Messages at most.")] = 32,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Also show messages whose key only has the same hash.")
    ] = False,
    body: BodyOption = None,
    stored_body: StoredBody = False,
    only_sound: OnlySound = False,
    outer: Outer = False,
) -> Result:
    """Find messages by key.

    Every hit is compared with the record itself, because the index holds hashes only; --unverified leaves that out,
    as a broker does. A record of several messages (5.x) gives those of its messages that have the key, or all where
    only the record has it; --outer gives the record. The index holds no keys of messages inside: `find` looks there.
    Exit code 1 when nothing was found, or something of it is damaged.
    """
    session: Session = ctx.obj
    begin_ms = session.parse_time(begin, "--begin") if begin is not None else 0
    end_ms = session.parse_time(end, "--end") if end is not None else END_OF_TIME_MS
    if begin_ms > end_ms:
        raise typer.BadParameter("--begin is later than --end")
    opened = session.store.find_served() or session.store.open_for_reading()
    answer = opened.query(topic, key, max_count, begin_ms, end_ms, verify=not unverified, by_tags=by_tags)
    records = [record for record in answer.messages if record.is_crc_right or not only_sound]
    what = f"{'tags' if by_tags else 'key'} {key}"
    found = records if outer or by_tags else [message for record in records for message in _inside(record, key)]
    if not found:
        _tell_of_topic(session, opened, topic, what)
    rows = MessageRows(body, session.format, stored=stored_body, warn=session.warn)
    table = [rows.row(message) for message in found]
    rows.warn_of_damage()
    tables = [Table("messages", table, ("queue_id", *rows.columns)), Table("index_files", _files(answer))]
    for damage in answer.damaged:
        session.warn(describe(damage))
    exit_code = OK if found and not (rows.unsound_count or answer.damaged) else FINDINGS
    verdict = f"{count(len(found), 'message')} of {topic} with the {what}"
    verdict += f", {count(answer.damaged_count, 'record')} unreadable" if answer.damaged else ""
    return Result("index-query", {"message_count": len(found)}, tables, exit_code, verdict)


def _inside(record: StoredMessage, key: str) -> list[StoredMessage]:
    from store.reading import messages_inside

    return messages_inside(record, lambda message: key == message.uniq_key or key in message.keys)


def _tell_of_topic(session: Session, opened: MessageStore | StoreClient, topic: str, what: str) -> None:
    topics = set(opened.topics())
    if topic in topics:
        session.note(f"no message of {topic} has the {what}")
    else:
        session.note(f"no topic is called {topic!r}{did_you_mean(topic, topics)}")


def _files(answer: QueryResult) -> list[dict[str, str]]:
    return [{"file": name} for name in answer.index_files]
