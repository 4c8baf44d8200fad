"""get: messages of a topic or a queue, or one message by its id or log offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from rmqctl.completion import complete_queue, complete_topic
from rmqctl.context import Session
from rmqctl.contradictions import given_options
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.key_query import MOST, KeyQuery, find_by_key
from rmqctl.messages import BodyOption, MessageRows, OnlySound, Outer, StoredBody
from rmqctl.queue_reading import QueueReading, Span
from rmqctl.raw_records import RecordWriter
from rmqctl.result import Result, Table
from rmqctl.show import count, did_you_mean, list_some
from rmqctl.store_times import Since, Until, store_times

if TYPE_CHECKING:
    from store import MessageStore, ReadableStore, StoredMessage

EXAMPLES = (
    "rmqctl --store /data/store get OrderTopic --queue 3 --from 100 --limit 10",
    "rmqctl --store /data/store get OrderTopic --since -15m --tags 'paid || sent'",
    "rmqctl --store /data/store get OrderTopic --last 20",
    "rmqctl --store /data/store get OrderTopic --key order-4711 --follow",
    "rmqctl --store /data/store get OrderTopic --sql \"amount > 5 AND region IN ('eu', 'us')\"",
    "rmqctl --store /data/store get OrderTopic --group billing",
    "rmqctl --store /data/store get --msg-id 7F00000100002A9F0000000000000245 --raw > record.bin",
)
EXIT_CODES = {1: "Nothing was found, or a message is damaged."}
FILES = ("commitlog", "consumequeue", "consumequeue_ext", "config", "checkpoint", "abort")
SEE_ALSO = ("index-query", "check", "export")
REMEDY = "; --only-sound leaves such messages out"


Topic = Annotated[str | None, typer.Argument(metavar="TOPIC", help="Topic.", autocompletion=complete_topic)]
QueueId = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="N", help="Only this queue.", show_default="all, in store time", autocompletion=complete_queue
    ),
]
Offset = Annotated[
    int | None,
    typer.Option(
        "--from",
        "--offset",
        min=0,
        metavar="N",
        help="Queue offset to begin at; of the first queue without --queue.",
        show_default="first",
    ),
]
To = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Queue offset to end at, included.", show_default="the last"),
]
Last = Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the last N messages.")]
MsgId = Annotated[str | None, typer.Option(metavar="ID", help="The one message with this id.")]
LogOffset = Annotated[int | None, typer.Option(min=0, metavar="N", help="The one message at this log offset.")]
MaxCount = Annotated[
    int,
    typer.Option("--limit", "--max", min=1, metavar="N", help="Messages at most.", show_default="32; with --to all"),
]
Key = Annotated[
    str | None, typer.Option(metavar="KEY", help="Only messages with this key, by the index; see index-query.")
]
Tags = Annotated[str | None, typer.Option(metavar="EXPR", help="Only messages with these tags: 'A || B'.")]
Sql = Annotated[str | None, typer.Option(metavar="EXPR", help="Only messages that this SQL92 expression selects.")]
Group = Annotated[
    str | None, typer.Option(metavar="GROUP", help="Only messages that this group's SQL subscription selects.")
]
OneCall = Annotated[
    bool, typer.Option("--one-call", help="Answer exactly as one broker call: its limits, one queue file.")
]
Follow = Annotated[bool, typer.Option("--follow", help="Keep printing new messages, until Ctrl-C.")]
Raw = Annotated[bool, typer.Option("--raw", help="Write the stored records themselves to stdout.")]


def run(
    ctx: typer.Context,
    topic: Topic = None,
    queue: QueueId = None,
    offset: Offset = None,
    to: To = None,
    since: Since = None,
    until: Until = None,
    last: Last = None,
    msg_id: MsgId = None,
    log_offset: LogOffset = None,
    max_count: MaxCount = 32,
    key: Key = None,
    tags: Tags = None,
    sql: Sql = None,
    group: Group = None,
    one_call: OneCall = False,
    follow: Follow = False,
    body: BodyOption = None,
    stored_body: StoredBody = False,
    only_sound: OnlySound = False,
    outer: Outer = False,
    raw: Raw = False,
) -> Result | int:
    """Read messages of a topic or queue, or one message.

    Without --queue, messages of all queues are listed in order of store time. With --group the messages are those that
    a broker would give to this group, by config/consumerFilter.json; tag subscriptions are in no file.

    Reads until --limit, --to or the end of the queues. A record with several messages (5.x) has one row for each
    message, with outer_queue_offset, unless --outer. Compressed bodies are decompressed, unless --stored-body. A
    message whose body does not match the record's CRC is marked (crc_ok is false), or left out with --only-sound. Exit
    code 1 when nothing was found, or when a message is damaged.

    Nothing is written: get works on a read-only mount and beside a live broker. If `rmqctl serve` has the store open,
    --follow shows each message at once. Otherwise it reads the files when one appears, and twice a second.
    """
    session: Session = ctx.obj
    _check_surroundings(session, follow=follow, raw=raw)
    rows = MessageRows(body, session.format, stored=stored_body, remedy=REMEDY, warn=session.warn)
    if msg_id is not None or log_offset is not None:
        return _get_one(session, _place_of(msg_id, log_offset), rows, raw, only_sound)
    if topic is None:
        raise typer.BadParameter("give a TOPIC, or --msg-id or --log-offset")
    times = store_times(session, since, until)
    if key is not None and not follow:
        asked = KeyQuery(topic, key, max_count, *times, only_sound=only_sound, outer=outer or raw)
        return _get_by_key(session, asked, rows, raw)
    since_ms, until_ms = (None if text is None else time for text, time in zip((since, until), times, strict=True))
    message_filter = _filter(tags, sql, key, topic=topic if not one_call else "")
    opened = _open(session, from_files=raw or group is not None)
    queue = _one_queue(opened, topic, offset, to) if queue is None else queue
    is_filtered = message_filter if group is None else _subscription(session, opened, topic, group)
    places = _places(opened, (topic, queue), offset, since_ms, None if is_filtered or only_sound or until else last)
    takes_all = follow or last or (to is not None and "--limit" not in given_options(ctx))
    span = Span(None if takes_all else max_count, last, since_ms, until_ms)
    read = partial(
        QueueReading.begin, session, rows, topic, span, is_single=queue is not None or len(places) == 1,
        end=_end(offset, to), one_call=one_call, only_sound=only_sound, outer=outer or raw, message_filter=is_filtered,
    )  # fmt: skip
    run = read(opened, places)
    _tell_of_queues(session, opened, topic, queue)
    return _follow(session, run, read, raw, message_filter) if follow else run.write_raw() if raw else run.result()


def _one_queue(opened: ReadableStore, topic: str, offset: int | None, to: int | None) -> int | None:
    """Return the topic's first queue for limits that are queue offsets, else None for all queues."""
    is_range = offset is not None or to is not None
    return next(iter(opened.queue_ids(topic)), 0) if is_range else None


def _places(
    opened: ReadableStore, asked: tuple[str, int | None], offset: int | None, since_ms: int | None, last: int | None
) -> dict[int, int]:
    """Return the first queue offset to read, by queue id."""
    topic, queue = asked
    queues = [queue] if queue is not None else list(opened.queue_ids(topic)) or [0]
    return {one: _start(opened, topic, one, offset, since_ms, last) for one in queues}


def _end(offset: int | None, to: int | None) -> int | None:
    """Return the queue offset to end before."""
    if to is not None and offset is not None and to < offset:
        raise typer.BadParameter("--to is less than --from")
    return None if to is None else to + 1


def _follow(
    session: Session, first: QueueReading, read: Callable[..., QueueReading], raw: bool, message_filter: Any
) -> int:
    """Follow queues by the process that serves the store; by its files after that has ended."""
    from store import StoreClosed

    try:
        return first.follow(raw, message_filter)
    except StoreClosed:
        session.note("note: the process that served the store has ended; its files are watched")
        return read(session.store.open_for_reading(), first.places).follow(raw, message_filter)


def _open(session: Session, *, from_files: bool) -> ReadableStore:
    """Return the process that serves the store, else the store itself; `from_files` takes the store."""
    served = session.store.find_served() if not from_files else None
    return served or session.store.open_for_reading()


def _check_surroundings(session: Session, *, follow: bool, raw: bool) -> None:
    if follow and session.options.uri is not None:
        raise typer.BadParameter("--follow needs a store in a folder; at a URI, later messages are not seen")
    if raw and session.environment.stdout.isatty():
        raise typer.BadParameter("--raw writes bytes that can drive a terminal; send them to a file or a pipe")


def _place_of(msg_id: str | None, log_offset: int | None) -> int:
    from store.formats import decode_message_id

    if msg_id is not None:
        return decode_message_id(msg_id)[1]
    assert log_offset is not None
    return log_offset


def _filter(tags: str | None, sql: str | None, key: str | None, *, topic: str = "") -> Any:
    """Return the filter, None without one; raise BadParameter for tags of a topic whose queues have none."""
    if key is not None:
        from store.reading import KeyExpression

        return KeyExpression(key)
    if tags is not None:
        from store.reading import TagExpression

        _require_tags_in_queues(topic)
        return TagExpression(tags)
    if sql is not None:
        from store.reading import compile_sql

        return compile_sql(sql)
    return None


def _require_tags_in_queues(topic: str) -> None:
    """Raise BadParameter for delayed messages: their queue entries have a delivery time in place of tags."""
    from store.formats import SCHEDULE_TOPIC

    if topic == SCHEDULE_TOPIC:
        raise typer.BadParameter(
            f"the queues of {topic} hold delivery times in place of tags, and a broker selects none by tags; "
            "`rmqctl export --where \"tags = 'A'\"` does",
            param_hint="--tags",
        )


def _subscription(session: Session, opened: ReadableStore, topic: str, group: str) -> Any:
    """Return the filter of a group, with a note on its effect in a broker."""
    from store.reading import SubscriptionFilter, load_filters

    inner = cast("MessageStore", opened)
    session.store.warn_of_unloaded(inner, "consumerFilter.json")
    filters = load_filters(inner.layout, inner.config, session.store.reached[1], session.environment.clock_ms())
    found = SubscriptionFilter(filters, topic, group, supports_retry=inner.config.filter_support_retry)
    own = found.subscription
    if filters.is_ignored:
        session.warn(
            "a broker ignores config/consumerFilter.json: its bits are not those of maxErrorRateOfBloomFilter "
            "and expectConsumerNumUseFilter"
        )
    elif own is None:
        session.note(f"note: {group} has no SQL subscription to {topic}; every message is shown")
    elif found.expression is None:
        session.warn(f"the expression of {group} does not compile, so every message is shown: {own.expression}")
    else:
        session.note(f"note: {group} is subscribed to {found.expression}")
    return found


def _start(
    opened: ReadableStore, topic: str, queue_id: int, offset: int | None, since_ms: int | None, last: int | None
) -> int:
    """Return the first queue offset to read.

    Asking for it opens the queue: a queue with lost files is then among the store's queues.
    """
    first = opened.min_offset(topic, queue_id)
    if since_ms is not None:
        first = _first_since(opened, topic, queue_id, since_ms)
    if last is not None:
        return max(first, opened.max_offset(topic, queue_id) - last)
    return offset if offset is not None else first


def _first_since(opened: ReadableStore, topic: str, queue_id: int, since_ms: int) -> int:
    """Return the queue offset of the first message from a time on.

    A 4.9 broker searches one file alone, by the files' modification times, which a copy or a map does not keep.
    """
    low, high = opened.min_offset(topic, queue_id), opened.max_offset(topic, queue_id)
    while low < high:
        middle = (low + high) // 2
        near = next(iter(opened.messages(topic, queue_id, middle, must_exist=False, max_count=1)), None)
        if near is not None and near.store_timestamp_ms < since_ms:
            low = middle + 1
        else:
            high = middle
    return low


def _tell_of_queues(session: Session, opened: ReadableStore, topic: str, queue: int | None) -> None:
    """Note the topic's queues for an unknown queue, or a similar name for an unknown topic."""
    own = opened.queue_ids(topic)
    if not own:
        session.note(f"no topic is called {topic!r}{did_you_mean(topic, set(opened.topics()))}")
    elif queue is not None and queue not in own:
        session.note(f"{topic} has no queue {queue}; it has {list_some(own)}")


def _get_one(session: Session, log_offset: int, rows: MessageRows, raw: bool, only_sound: bool) -> Result | int:
    opened = _open(session, from_files=raw)
    message = _lookup(session, opened, log_offset)
    if message is not None and only_sound and not message.is_crc_right:
        session.note("the message's body does not have the record's CRC")
        message = None
    exit_code = OK if message is not None and message.is_crc_right else FINDINGS
    messages = [message] if message is not None else []
    if raw:
        _write_all(session, cast("MessageStore", opened), messages)
        return exit_code
    table = [rows.row(message) for message in messages]
    rows.warn_of_damage()
    status = "FOUND" if messages else "NOT_FOUND"
    verdict = "1 message found" if messages else f"no message at log offset {log_offset}"
    columns = ("topic", "queue_id", *rows.columns)
    return Result("get", {"status": status}, [Table("messages", table, columns, names=rows.names)], exit_code, verdict)


def _get_by_key(session: Session, asked: KeyQuery, rows: MessageRows, raw: bool) -> Result | int:
    if asked.max_count > MOST:
        raise typer.BadParameter(f"a query by key gives at most {MOST} messages", param_hint="--limit")
    opened = _open(session, from_files=raw)
    found, answer = find_by_key(session, asked, opened)
    found = sorted(found, key=lambda one: one.log_offset)
    is_damaged = bool(answer.damaged) or not all(one.is_crc_right for one in found)
    exit_code = OK if found and not is_damaged else FINDINGS
    if raw:
        _write_all(session, cast("MessageStore", opened), found)
        return exit_code
    table = [rows.row(message) for message in found]
    rows.warn_of_damage()
    status = "FOUND" if found else "NOT_FOUND"
    verdict = f"{count(len(found), 'message')} of {asked.topic} with the {asked.what}"
    tables = [Table("messages", table, ("queue_id", *rows.columns), names=rows.names)]
    return Result("get", {"status": status, "is_limited": answer.is_limited}, tables, exit_code, verdict)


def _lookup(session: Session, opened: ReadableStore, log_offset: int) -> StoredMessage | None:
    """Return the message at a log offset, None in the unused rest of a segment.

    BadRequest inside of a record.
    """
    from store import BadRequest, DamagedRecord

    damaged = None
    try:
        message = opened.lookup(log_offset)
    except DamagedRecord as error:
        message, damaged = None, error
    if message is not None:
        return message
    files = session.store.open_for_reading()
    start = files.record_start(log_offset)
    if start is not None:
        raise BadRequest(f"log offset {log_offset} is inside of the record that begins at log offset {start}")
    if damaged is not None and not files.is_in_blank(log_offset):
        raise damaged
    return None


def _write_all(session: Session, opened: MessageStore, messages: Iterable[StoredMessage]) -> None:
    with RecordWriter(opened, session.environment.stdout) as writer:
        for message in messages:
            writer.write(message.log_offset, message.size)
