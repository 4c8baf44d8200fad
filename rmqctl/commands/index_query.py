"""index-query: messages by key, through index files or the message database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.completion import complete_topic
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.key_query import MOST, KeyQuery, find_by_key
from rmqctl.messages import BodyOption, MessageRows, OnlySound, Outer, StoredBody
from rmqctl.result import Result, Table
from rmqctl.show import count
from rmqctl.store_times import store_times

if TYPE_CHECKING:
    from store import QueryResult

EXAMPLES = (
    "rmqctl --store /data/store index-query OrderTopic order-4711",
    "rmqctl --store /data/store --format json index-query OrderTopic order-4711 --since -3d --limit 5",
    "rmqctl --store /data/store index-query OrderTopic paid --tags",
    "rmqctl --store /data/store index-query OrderTopic order-4711 --database",
)
EXIT_CODES = {1: "Nothing was found, or a message is damaged."}
FILES = ("index", "rocksdbstore", "commitlog", "checkpoint", "abort")
SEE_ALSO = ("get", "rebuild")


def run(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic.", autocompletion=complete_topic)],
    key: Annotated[str, typer.Argument(metavar="KEY", help="One of the message's keys, or its unique key.")],
    by_tags: Annotated[bool, typer.Option("--tags", help="Treat KEY as tags (5.4 and later).")] = False,
    in_database: Annotated[
        bool, typer.Option("--database", help="Search only the index in rocksdbstore/ (5.4 and later).")
    ] = False,
    since: Annotated[
        str | None, typer.Option("--since", "--begin", metavar="TIME", help="Stored at this time or later.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", "--end", metavar="TIME", help="Stored at this time or earlier.")
    ] = None,
    max_count: Annotated[
        int, typer.Option("--limit", "--max", min=1, max=MOST, metavar="N", help="Messages at most.")
    ] = 32,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Also show messages whose key only has the same hash.")
    ] = False,
    body: BodyOption = None,
    stored_body: StoredBody = False,
    only_sound: OnlySound = False,
    outer: Outer = False,
) -> Result:
    """Find messages by key.

    The index holds only hashes, so every hit is compared with its record; --unverified skips that, as a broker does.
    For a record with several messages (5.x) it shows those that have the key, or all if only the record has it; --outer
    shows the record. Keys of inner messages are in no index; `find` searches them.

    Keys in no index file are searched in the message database (5.4 and later), then in the log that it does not cover;
    `find --scan` reads the whole log. With --database the result is that of a broker: the oldest hours first, without
    messages that have no unique key or were not written to the database before the broker was killed.

    Hits of other keys with the same hash count for --limit too; a note says when the search ended there.

    Exit code 1 when nothing was found, or when a message is damaged.
    """
    session: Session = ctx.obj
    asked = KeyQuery(
        topic,
        key,
        max_count,
        *store_times(session, since, until),
        by_tags,
        in_database,
        not unverified,
        only_sound,
        outer,
    )
    found, answer = find_by_key(session, asked, session.store.find_served() or session.store.open_for_reading())
    rows = MessageRows(body, session.format, stored=stored_body, warn=session.warn)
    table = [rows.row(message) for message in found]
    rows.warn_of_damage()
    messages = Table("messages", table, ("queue_id", *rows.columns), names=rows.names)
    tables = [messages, Table("index_files", _files(answer))]
    exit_code = OK if found and not (rows.unsound_count or answer.damaged) else FINDINGS
    verdict = f"{count(len(found), 'message')} of {topic} with the {asked.what}"
    verdict += f", {count(answer.damaged_count, 'record')} unreadable" if answer.damaged else ""
    facts = {"message_count": len(found), "is_limited": answer.is_limited}
    return Result("index-query", facts, tables, exit_code, verdict)


def _files(answer: QueryResult) -> list[dict[str, str]]:
    return [{"file": name} for name in answer.index_files]
