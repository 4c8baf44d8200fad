"""find: the places of a message, its consumers and its later copies."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.messages import MessageRows, Outer, StoredBody
from rmqctl.querying import embedded_engine
from rmqctl.result import Result, Table
from rmqctl.show import count, count_is

if TYPE_CHECKING:
    from store import StoredMessage
    from store.verbs import Finder, Found

EXAMPLES = (
    "rmqctl --store /data/store find order-4711",
    "rmqctl --store /data/store find 7F00000100002A9F0000000000000245",
    "rmqctl --store /data/store find --body 'amount\":1[0-9]{4}' --limit 5",
    "rmqctl --store /data/store find --where \"topic = 'Orders' and size > 100000\" --format jsonl",
    "rmqctl --store /backup/00000000001073741824 find order-4711",
)
EXIT_CODES = {1: "Nothing was found, or a place of the message is damaged."}
FILES = ("commitlog", "consumequeue", "index", "config")
SEE_ALSO = ("index-query", "get", "dump", "sql")
LIVES = 5
"""Most unique keys whose other records are searched."""
COLUMNS = ("log_offset", "topic", "queue_id", "queue_offset", "store_timestamp_ms", "tags", "keys")
LIFE_COLUMNS = ("store_timestamp_ms", "role", "topic", "queue_id", "queue_offset", "log_offset", "uniq_key")


def run(
    ctx: typer.Context,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="A key, a unique key, a message id, or any text.")
    ] = None,
    body_pattern: Annotated[
        str | None, typer.Option("--body", metavar="REGEX", help="Search bodies for this pattern.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Rows of the table `messages` that satisfy this condition.")
    ] = None,
    most: Annotated[int, typer.Option("--limit", "--max", min=1, metavar="N", help="Messages at most.")] = 20,
    scan: Annotated[bool, typer.Option("--scan", help="Scan the whole log, without the index.")] = False,
    life: Annotated[bool, typer.Option("--life/--no-life", help="Look for the other records of a message.")] = True,
    stored_body: StoredBody = False,
    outer: Outer = False,
) -> Result:
    """Find a message, its places and its later copies.

    Searches all topics: by the index where it covers the log, else by a scan; the result shows the bytes of each. Text
    that is neither a key nor a message id is searched in the whole log. Shows the record with file and position, its
    queue entry, its index entries, and the groups that consumed it. Then all records with the same unique key, in order
    of time: delayed, delivered, retried, dead, half and committed. For a record with several messages (5.x) it shows
    the matching ones, or all if only the record matches; --outer shows the record. Exit code 1 when nothing was found,
    or when a place is damaged.

    --store can be one segment file of any name. Queues and index are not searched then.
    """
    session: Session = ctx.obj
    if [text, body_pattern, where].count(None) != 2:
        raise typer.BadParameter("give a TEXT, or --body, or --where")

    from store.opened import make_layout
    from store.verbs import Finder

    settings, (root, fs) = session.store.settings(), session.store.reached
    reader = session.store.open_reached(or_segment=True)
    with session.progress("searching the log") as bar:
        layout = make_layout(root, settings, fs)
        finder = Finder(reader, layout, settings, fs, use_index=not scan, outer=outer, on_progress=bar.update)
        for fault in finder.index.faults:
            session.warn(f"left out of the index: {fault}")
        if where is not None:
            found = _where(session, finder, where, most, outer=outer)
        else:
            found = finder.find_body(body_pattern, most) if body_pattern is not None else finder.find(text or "", most)
        lives = finder.related(found.messages, LIVES) if life else {}
    session.store.warn_of_damage([reader])
    messages = MessageRows(None, session.format, stored=stored_body, warn=session.warn)
    return _result(session, finder, found, lives, messages)


def _where(session: Session, finder: Finder, condition: str, most: int, *, outer: bool) -> Found:
    """Return records by a condition on the table `messages` of the embedded engine."""
    readers = session.store.open_readers([str(session.store.place)], any_size=True, or_segment=True)
    with embedded_engine(session, readers, outer=outer) as engine:
        query = f"select log_offset, queue_offset from messages where ({condition}\n) order by log_offset, queue_offset"
        _, rows = engine.query(query, limit=most + 1)
    session.store.warn_of_damage(readers.values())
    return finder.at_places(((row["log_offset"], row["queue_offset"]) for row in rows), most)


def _result(
    session: Session, finder: Finder, found: Found, lives: dict[str, list[StoredMessage]], messages: MessageRows
) -> Result:
    from store.verbs import consumers_of, life_of

    if found.is_cut:
        session.note(f"only the first {count_is(len(found.messages), 'message')} shown; --limit shows more")
    rows = [messages.row(message) for message in found.messages]
    messages.warn_of_damage()
    places = [
        {**asdict(place), "position": place.position if place.position >= 0 else None}
        for record in found.records
        for place in finder.places_of(record)
    ]
    groups = [asdict(one) for message in found.messages for one in consumers_of(finder.offsets, message)]
    stages = [_stage(key, stage) for key, records in lives.items() for stage in life_of(records)]
    searched = [{**asdict(one), "size_bytes": one.stop - one.start} for one in found.searched]
    wrong = sum(place["state"] != "ok" for place in places)
    by_index = sum(one["size_bytes"] for one in searched if one["how"] == "index")
    facts = {
        "searched_as": found.searched_as,
        "message_count": len(rows),
        "wrong_place_count": wrong,
        "indexed_bytes": by_index,
        "scanned_bytes": sum(one["size_bytes"] for one in searched) - by_index,
    }
    tables = [
        Table("messages", rows, COLUMNS, names=messages.names),
        Table("places", places, ("log_offset", "place", "state", "file", "position")),
        Table("groups", groups),
        Table("life", stages, LIFE_COLUMNS, is_detail=len(stages) == len(lives)),
        Table("searched", searched, is_detail=True),
    ]
    if not session.format.is_for_programs:
        tables = [tables[0], *(table for table in tables[1:] if table.rows)]
    verdict = f"{count(len(rows), 'message')} found as {found.searched_as}" if rows else "nothing found"
    verdict += f"; {count(wrong, 'place')} damaged" if wrong else ""
    code = OK if rows and not wrong else FINDINGS
    return Result("find", facts, tables, code, verdict, main_facts=("wrong_place_count",))


def _stage(key: str, stage: Any) -> dict[str, Any]:
    message = stage.message
    return {
        "uniq_key": key,
        "role": stage.role,
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "log_offset": message.log_offset,
        "store_timestamp_ms": message.store_timestamp_ms,
        "reconsume_times": message.reconsume_times,
    }
