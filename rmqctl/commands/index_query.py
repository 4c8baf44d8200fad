"""index-query: messages by key, through index files or the message database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.completion import complete_topic
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.key_query import MOST, KeyQuery, find_by_key, store_times
from rmqctl.messages import BodyOption, MessageRows, OnlySound, Outer, StoredBody
from rmqctl.result import Result, Table
from rmqctl.show import count

if TYPE_CHECKING:
    from store import QueryResult

EXAMPLES = (
    "rmqctl --store /data/store index-query OrderTopic order-4711",
    "rmqctl --store /data/store --format json index-query OrderTopic order-4711 --since -3d --limit 5",
    "rmqctl --store /data/store index-query OrderTopic paid --tags",
    "rmqctl --store /data/store index-query OrderTopic order-4711 --database",
)
EXIT_CODES = {1: "Nothing was found, or something of what was found is damaged."}
FILES = ("index", "rocksdbstore", "commitlog", "checkpoint", "abort")
SEE_ALSO = ("get", "rebuild")


def run(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic.", autocompletion=complete_topic)],
    key: Annotated[str, typer.Argument(metavar="KEY", help="One of the message's keys, or its unique key.")],
    by_tags: Annotated[bool, typer.Option("--tags", help="KEY is the tags of the messages (5.4 and later).")] = False,
    in_database: Annotated[
        bool, typer.Option("--database", help="Ask the index in rocksdbstore/ (5.4 and later) alone.")
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

    Every hit is compared with the record itself, because the index holds hashes only; --unverified leaves that out,
    as a broker does. A record of several messages (5.x) gives those of its messages that have the key, or all where
    only the record has it; --outer gives the record. The index holds no keys of messages inside: `find` looks there.
    Keys that are in no index file are looked up in the message database (5.4 and later), and read from the log where
    it does not reach, or has no such key; `find --scan` reads the whole log. --database gives what a broker finds: the
    oldest hours first, and nothing of a message that has no unique key, or that the database had not yet when its
    broker was killed.

    Exit code 1 when nothing was found, or something of it is damaged.
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
    tables = [Table("messages", table, ("queue_id", *rows.columns)), Table("index_files", _files(answer))]
    exit_code = OK if found and not (rows.unsound_count or answer.damaged) else FINDINGS
    verdict = f"{count(len(found), 'message')} of {topic} with the {asked.what}"
    verdict += f", {count(answer.damaged_count, 'record')} unreadable" if answer.damaged else ""
    return Result("index-query", {"message_count": len(found)}, tables, exit_code, verdict)


def _files(answer: QueryResult) -> list[dict[str, str]]:
    return [{"file": name} for name in answer.index_files]
