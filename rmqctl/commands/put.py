"""put: append messages, one from the command line or many from a file of JSON lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.changing import ForceEmptyLog
from rmqctl.completion import complete_queue, complete_topic
from rmqctl.context import Session
from rmqctl.copies import CopyFilter
from rmqctl.exit_codes import FINDINGS, IO_ERROR, OK
from rmqctl.message_input import build_message, parse_stored
from rmqctl.replay import AsStored, KeepTimes, QueueMap, Replay, TopicMap
from rmqctl.result import Result, Table
from rmqctl.show import count

if TYPE_CHECKING:
    from store import Message, PutResult, WritableStore
    from store.serving import StoreClient

    Timed = tuple[Message, int | None]

EXAMPLES = (
    "rmqctl --store /tmp/store put OrderTopic 'hello' --queue 3 --tags paid --key order-4711",
    "rmqctl --store /tmp/store put OrderTopic --body-file invoice.pdf --property size=A4",
    "rmqctl --store /tmp/store put --from messages.jsonl --flush sync",
    "rmqctl --store /tmp/store put Payments '42' --uniq-key 7F0000010001 --half payers",
)
SEE_ALSO = ("get", "recover", "export", "transaction resolve")
FILES = ("commitlog", "consumequeue", "index", "checkpoint", "abort", "lock")
EXIT_CODES = {1: "The store refused a message; `status` says why."}
BULK_SIZE = 2000
NO_SEGMENT = "CREATE_MAPEDFILE_FAILED"
LEFT_OUT = {
    "half": "half messages",
    "op": "marks of ended transactions",
    "discarded": "discarded half messages",
    "delayed": "waiting for a delay, of which the delivered copy was put",
    "retried": "for consumers that failed, of which the message was put",
}
SHOWN = ("status", "topic", "queue_id", "queue_offset", "log_offset", "size", "msg_id")


class Transaction(StrEnum):
    """Values of --transaction."""

    NONE = "none"
    PREPARED = "prepared"
    COMMIT = "commit"
    ROLLBACK = "rollback"


class Flush(StrEnum):
    """Values of --flush."""

    ASYNC = "async"
    SYNC = "sync"


class Compat(StrEnum):
    """Values of --compat."""

    V4_9 = "4.9"
    V5_3 = "5.3"


CompatOption = Annotated[
    Compat | None,
    typer.Option(help="The broker line whose records to write.", show_default="the store's own; 4.9 for a new one"),
]
FlushOption = Annotated[
    Flush | None,
    typer.Option(help="sync waits for the device after every message.", show_default="flushDiskType, else async"),
]

TopicArgument = Annotated[
    str | None,
    typer.Argument(metavar="TOPIC", help="Topic; with --from, of lines that name none.", autocompletion=complete_topic),
]
PropertyOption = Annotated[list[str] | None, typer.Option("--property", metavar="K=V", help="A property; repeatable.")]
HalfOption = Annotated[
    str | None, typer.Option(metavar="GROUP", help="Put the half of a transaction of this producer group.")
]
BodyFile = Annotated[str | None, typer.Option(metavar="FILE", help="Body from a file, or - for stdin.")]
FromOption = Annotated[
    str | None, typer.Option("--from", metavar="FILE", help="Messages from JSON lines, or - for stdin.")
]


def run(
    ctx: typer.Context,
    topic: TopicArgument = None,
    body: Annotated[str | None, typer.Argument(metavar="BODY", help="Body as text.")] = None,
    queue: Annotated[int, typer.Option(min=0, metavar="N", help="Queue id.", autocompletion=complete_queue)] = 0,
    tags: Annotated[str | None, typer.Option(metavar="T", help="Tags.")] = None,
    key: Annotated[list[str] | None, typer.Option(metavar="K", help="Index key; repeatable.")] = None,
    uniq_key: Annotated[str | None, typer.Option(metavar="U", help="The producer's unique key.")] = None,
    property: PropertyOption = None,
    flag: Annotated[int, typer.Option(metavar="N", help="The producer's flag.")] = 0,
    delay_level: Annotated[int | None, typer.Option(min=1, metavar="N", help="Delay level, 1 is the shortest.")] = None,
    transaction: Annotated[Transaction, typer.Option(help="Transaction type.")] = Transaction.NONE,
    half: HalfOption = None,
    body_file: BodyFile = None,
    from_file: FromOption = None,
    as_stored: AsStored = False,
    keep_times: KeepTimes = False,
    topic_map: TopicMap = None,
    queue_map: QueueMap = None,
    flush: FlushOption = None,
    transient_pool: Annotated[bool, typer.Option("--transient-pool", help="Write through locked buffers.")] = False,
    recover: Annotated[bool, typer.Option("--recover", help="Recover first, if the last owner crashed.")] = False,
    force_empty_log: ForceEmptyLog = False,
    compat: CompatOption = None,
) -> Result:
    """Append messages to the store.

    Creates a store in an empty or absent folder. A store that was not shut down is refused without --recover. `rmqctl
    serve` takes the messages of the store that it has open. A line of --from is an object with the names that get
    shows, as export --as jsonl and get write it; the body is base64 in `body`, or text in `body_text`. By default
    (--as-new) each message is put once, as a producer would send it: half messages, marks of ended transactions, and
    copies for a delay or a retry are left out where the message itself is put; one that still waits is put last.
    Topics of more than 127 bytes need --compat 5.3. With --half the message waits for `transaction resolve`.
    """
    session: Session = ctx.obj
    _tell_of_compaction(session, topic)
    choices: dict[str, Any] = {"recover": recover, "force_empty_log": force_empty_log, "compat": compat}
    open_for_writing = partial(_open_or_connect, session, _settings(flush, transient_pool), **choices)
    _check_half(half, from_file, transaction, delay_level)
    if from_file is not None:
        _check_from_file(session, from_file, body, body_file)
        replay = Replay.given(as_stored, keep_times, topic_map, queue_map)
        return _put_many(session, open_for_writing(), replay, from_file, topic)
    _require_topic(topic, for_from=bool(as_stored or keep_times or topic_map or queue_map))
    row = {
        "topic": topic, "queue_id": queue, "tags": tags, "keys": key or [], "uniq_key": uniq_key, "flag": flag,
        "delay_level": delay_level, "transaction": transaction.value, "properties": _parse_properties(property or ()),
    }  # fmt: skip
    message = _message(session, row, _read_body(session, body, body_file))
    return (_put_one if half is None else partial(_put_half, group=half))(session, open_for_writing(), message)


def _tell_of_compaction(session: Session, topic: str | None) -> None:
    """Warns that messages of compacted topics (5.x) get no copy in the compaction log."""
    from store.brokerconfig import compacted_topics
    from store.disk import Filesystem
    from store.layout import StoreLayout

    found = compacted_topics(StoreLayout(session.store.root).config, Filesystem())
    named = sorted(found if topic is None else found & {topic})
    if named:
        session.warn(
            f"a put does not feed the compaction log of {', '.join(named)}, which consumers read: put messages of "
            "such topics through the broker"
        )


def _require_topic(topic: str | None, *, for_from: bool) -> None:
    if for_from:
        raise typer.BadParameter("--as-stored, --keep-times, --topic-map and --queue-map are for --from")
    if topic is None:
        raise typer.BadParameter("give a TOPIC, or --from with a file of messages")


def _open_or_connect(
    session: Session, settings: dict[str, str], *, recover: bool, force_empty_log: bool, compat: Compat | None
) -> WritableStore | StoreClient:
    """The store itself, or the process that serves it."""
    served = session.store.find_served()
    if served is None:
        return session.store.open_for_writing(
            settings=settings, recover=recover, force_empty_log=force_empty_log, compat=compat and compat.value
        )
    if settings or recover or force_empty_log or compat:
        raise typer.BadParameter(
            f"process {served.process_id} serves this store, with settings of its own; leave out --flush, "
            "--transient-pool, --recover, --compat and --force-empty-log, or run `rmqctl stop` first"
        )
    return served


def _settings(flush: Flush | None, transient_pool: bool) -> dict[str, str]:
    settings = {} if flush is None else {"flushDiskType": f"{flush.upper()}_FLUSH"}
    if transient_pool:
        settings["transientStorePoolEnable"] = "true"
    return settings


def _check_from_file(session: Session, from_file: str, body: str | None, body_file: str | None) -> None:
    """Before the store is opened, and perhaps created, for nothing."""
    if body is not None or body_file is not None:
        raise typer.BadParameter("--from brings the bodies; leave out BODY and --body-file")
    if from_file != "-":
        _open(session, from_file).close()


def _parse_properties(texts: Sequence[str]) -> dict[str, str]:
    return dict(map(_parse_property, texts))


def _parse_property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
    return name, value


def _read_body(session: Session, body: str | None, body_file: str | None) -> bytes:
    if body is not None and body_file is not None:
        raise typer.BadParameter("give BODY or --body-file, not both")
    if body_file is not None:
        with _open(session, body_file) as stream:
            return stream.read()
    if body is None:
        raise typer.BadParameter("give a BODY, --body-file or --from")
    return body.encode(errors="surrogateescape")


def _message(session: Session, row: dict[str, Any], content: bytes) -> Message:
    try:
        return build_message(row, content, session.environment.clock_ms())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _check_half(group: str | None, from_file: str | None, transaction: Transaction, delay_level: int | None) -> None:
    if group is None:
        return
    if not group:
        raise typer.BadParameter("a half needs the name of its producer group", param_hint="--half")
    if from_file is not None or transaction is not Transaction.NONE or delay_level is not None:
        raise typer.BadParameter("--half puts one message, without --from, --transaction and --delay-level")


def _put_half(session: Session, opened: WritableStore | StoreClient, message: Message, *, group: str) -> Result:
    from store.formats import HALF_TOPIC
    from store.services import TransactionalMessageService
    from store.serving import StoreClient

    with session.interrupts.deferred():
        if isinstance(opened, StoreClient):
            answer = opened.transactions.prepare(message, group)
        else:
            service = TransactionalMessageService(opened, session.environment.clock_ms)
            answer = service.prepare(message, group)
            # Writes the count of open halves (5.x).
            service.last_work()
    return _one_result(session, _row(message, answer) | {"topic": HALF_TOPIC, "queue_id": 0})


def _put_one(session: Session, opened: WritableStore | StoreClient, message: Message) -> Result:
    return _one_result(session, _put_row(session, opened, message))


def _one_result(session: Session, row: dict[str, Any]) -> Result:
    _say_no_segment(session, row)
    _say_too_long(session, [row])
    verdict = "stored" if row["status"] == "PUT_OK" else f"not stored as asked: {row['status']}"
    return Result("put", {}, [Table("results", [row], _shown(row))], _exit_code([row["status"]]), verdict)


def _open(session: Session, name: str) -> IO[bytes]:
    return session.environment.stdin if name == "-" else Path(name).open("rb")


def _put_row(
    session: Session,
    opened: WritableStore | StoreClient,
    message: Message,
    replay: Replay | None = None,
    time_ms: int | None = None,
) -> dict[str, Any]:
    """A put that a signal can't cut in two, as a row of the result."""
    with session.interrupts.deferred():
        answer = replay.put(opened, message, time_ms) if replay is not None else opened.put(message)
    return _row(message, answer)


def _row(message: Message, answer: PutResult) -> dict[str, Any]:
    return {
        "status": answer.status.value,
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": answer.queue_offset,
        "log_offset": answer.log_offset,
        "size": answer.size,
        "msg_id": answer.msg_id,
        "store_timestamp_ms": answer.store_timestamp_ms,
        **({"reason": answer.reason} if answer.reason else {}),
    }


def _say_too_long(session: Session, refused: Sequence[dict[str, Any]]) -> None:
    if any("4.x" in row.get("reason", "") for row in refused):
        session.note("--compat 5.3 makes a new store that takes longer topics")


def _say_no_segment(session: Session, row: dict[str, Any]) -> None:
    if row["status"] == NO_SEGMENT:
        session.fail(row["reason"])


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    return (*SHOWN, "reason") if "reason" in row else SHOWN


def _exit_code(statuses: Collection[str]) -> int:
    """The code of a failed put: a segment that could not be created is the disk's fault, else a finding."""
    if NO_SEGMENT in statuses:
        return IO_ERROR
    return FINDINGS if set(statuses) - {"PUT_OK"} else OK


def _put_many(
    session: Session, opened: WritableStore | StoreClient, replay: Replay, name: str, topic: str | None
) -> Result:
    """Programs get a row per message as it is stored; people get the sums."""
    counts: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    rows = _rows(session, opened, replay, name, topic, counts, left_out)
    if session.format.is_for_programs:
        return Result(
            "put",
            lambda: {"counts": dict(counts), "left_out": dict(left_out)},
            [Table("results", rows)],
            lambda: _exit_code(counts),
        )
    refused = [row for row in rows if row["status"] != "PUT_OK"]
    _say_too_long(session, refused)
    tables = [Table("refused", refused[:100], (*SHOWN, "reason"))] if refused else []
    form = "as they were stored" if replay.as_stored else "as new"
    more = f"; {count(left_out.total(), 'copy').replace('copys', 'copies')} left out" if left_out else ""
    verdict = f"{counts['PUT_OK']:,} of {count(counts.total(), 'message')} stored {form}{more}"
    facts = {"message_count": counts.total(), **counts, "left_out": dict(left_out) or None}
    return Result("put", facts, tables, _exit_code(counts), verdict)


def _rows(
    session: Session,
    opened: WritableStore | StoreClient,
    replay: Replay,
    name: str,
    topic: str | None,
    counts: Counter[str],
    left_out: Counter[str],
) -> Iterator[dict[str, Any]]:
    """Puts the file's messages, many at a time; from a pipe each at once, for its writer may be waiting."""
    size = 1 if name == "-" else BULK_SIZE
    waiting: list[Timed] = []
    copies = None if replay.as_stored else CopyFilter()
    with _open(session, name) as stream, session.progress("put", None, "messages") as bar:
        try:
            for message, time_ms in _messages(session, stream, topic, copies):
                waiting.append((replay.place(message), time_ms))
                if len(waiting) >= size:
                    yield from _put_waiting(session, opened, replay, waiting, counts)
                    bar.advance(size)
        finally:
            # A line that is no message ends the command, but not before those ahead of it are stored.
            last = list(_put_waiting(session, opened, replay, waiting, counts))
        yield from last
    if copies is not None:
        left_out.update(copies.left_out)
        _say_left_out(session, left_out)


def _say_left_out(session: Session, left_out: Counter[str]) -> None:
    if left_out:
        kinds = ", ".join(f"{number} {LEFT_OUT[kind]}" for kind, number in sorted(left_out.items()))
        session.warn(f"left out as copies that a broker made: {kinds}; --as-stored puts every line")


def _messages(session: Session, stream: IO[bytes], topic: str | None, copies: CopyFilter | None) -> Iterator[Timed]:
    """Yield the messages with the store times of their lines; warn of damaged bodies."""
    now_ms, damaged_count = session.environment.clock_ms(), 0
    problem: typer.BadParameter | None = None
    for number, line in enumerate(stream, 1):
        if line.strip():
            try:
                found = parse_stored(line, topic, now_ms)
            except ValueError as error:
                problem = typer.BadParameter(f"line {number}: {error}", param_hint="--from")
                break
            message = found.message if copies is None else copies.choose(found.message, line)
            if message is not None:
                damaged_count += not found.crc_ok
                yield message, found.store_timestamp_ms
    for line in copies.waiting() if copies is not None else ():
        found = parse_stored(line, topic, now_ms)
        damaged_count += not found.crc_ok
        yield found.message, found.store_timestamp_ms
    if problem is not None:
        raise problem
    if damaged_count:
        session.warn(
            f"{count(damaged_count, 'line')} of --from with crc_ok false: the damaged bodies were put as they are, and "
            "have the CRC of what they hold; take those lines out to leave them out"
        )


def _put_waiting(
    session: Session, opened: WritableStore | StoreClient, replay: Replay, waiting: list[Timed], counts: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Stores and forgets the waiting messages: in one go where all have the same hosts."""
    timed, waiting[:] = list(waiting), []
    from store.serving import StoreClient

    hosts = {(message.born_host, message.store_host) for message, _ in timed}
    if replay.is_plain and isinstance(opened, StoreClient):
        rows = _put_through_socket(session, opened, [message for message, _ in timed])
    elif replay.is_plain and not isinstance(opened, StoreClient) and len(hosts) == 1 and len(timed) > 1:
        rows = _put_columns(session, opened, [message for message, _ in timed])
    else:
        rows = [_put_row(session, opened, message, replay, time_ms) for message, time_ms in timed]
    for row in rows:
        if NO_SEGMENT not in counts:
            _say_no_segment(session, row)
        counts[row["status"]] += 1
        yield row


def _put_through_socket(session: Session, opened: StoreClient, messages: list[Message]) -> list[dict[str, Any]]:
    with session.interrupts.deferred():
        answers = opened.put_all(messages)
    return [_row(message, answer) for message, answer in zip(messages, answers, strict=True)]


def _put_columns(session: Session, opened: WritableStore, messages: list[Message]) -> list[dict[str, Any]]:
    from store import MessageColumns
    from store.formats import encode_message_id

    with session.interrupts.deferred():
        answer = opened.put_many(MessageColumns.of(messages))
    rows = []
    for place, message in enumerate(messages):
        log_offset = int(answer.log_offsets[place])
        row = {
            "status": answer.status_of(place).value,
            "topic": message.topic,
            "queue_id": message.queue_id,
            "queue_offset": int(answer.queue_offsets[place]),
            "log_offset": log_offset,
            "size": int(answer.sizes[place]),
            "msg_id": encode_message_id(message.store_host, log_offset) if log_offset >= 0 else "",
            "store_timestamp_ms": int(answer.store_timestamps_ms[place]),
        }
        if place in answer.refused:
            row["reason"] = answer.refused[place].reason
        rows.append(row)
    return rows
