"""put: append messages, one from the command line or many from files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.changing import ForceEmptyLog
from rmqctl.completion import complete_queue, complete_topic
from rmqctl.context import Session
from rmqctl.options import Compat
from rmqctl.put_form import AsStored, KeepTimes, PutForm, QueueMap, TopicMap
from rmqctl.result import Result

if TYPE_CHECKING:
    from store import Host, Message, WritableStore
    from store.engine.serving import StoreClient

EXAMPLES = (
    "rmqctl --store /tmp/store put OrderTopic 'hello' --queue 3 --tags paid --key order-4711",
    "rmqctl --store /tmp/store put OrderTopic --body-file invoice.pdf --property size=A4",
    "rmqctl --store /tmp/store put --input messages.jsonl --flush sync",
    "rmqctl --store /tmp/store put --input /data/messages --as-stored --keep-times",
    "rmqctl --store /tmp/store put Payments '42' --uniq-key 7F0000010001 --half payers",
)
SEE_ALSO = ("get", "recover", "export", "transaction resolve")
FILES = ("commitlog", "consumequeue", "index", "checkpoint", "abort", "lock")
MOST_BODY_BYTES = 256 << 20
"""Limit of a body from a file or a pipe, which may have no end; a broker accepts 4 MiB by default."""
EXIT_CODES = {1: "The store refused a message; `status` has the reason."}


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


CompatOption = Annotated[
    Compat | None,
    typer.Option(
        help="The broker version of the records; 5.3 for topics of more than 127 bytes.",
        show_default="the store's own; 4.9 for a new one",
    ),
]
StoreHostOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="The store host in message ids; queryMsgById connects to it.",
        show_default="brokerIP1:listenPort, else that of a line of --input, else 127.0.0.1:10911",
    ),
]
FlushOption = Annotated[
    Flush | None,
    typer.Option(help="sync waits for the device after each message.", show_default="flushDiskType, else async"),
]

TopicArgument = Annotated[
    str | None,
    typer.Argument(metavar="TOPIC", help="Topic; with --input, for lines without one.", autocompletion=complete_topic),
]
PropertyOption = Annotated[
    list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property; repeatable.")
]
HalfOption = Annotated[str | None, typer.Option(metavar="GROUP", help="Put a half message of this producer group.")]
TransientPool = Annotated[bool, typer.Option("--transient-pool", help="Write through buffers from the transient pool.")]
BodyFile = Annotated[str | None, typer.Option(metavar="FILE", help="Body from a file, or - for stdin.")]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--input", "--from", metavar="FILE", help="Messages of files from export or get; - for JSON lines of stdin."
    ),
]


def run(
    ctx: typer.Context,
    topic: TopicArgument = None,
    body: Annotated[str | None, typer.Argument(metavar="BODY", help="Body as text.")] = None,
    queue: Annotated[int, typer.Option(min=0, metavar="N", help="Queue id.", autocompletion=complete_queue)] = 0,
    tags: Annotated[str | None, typer.Option(metavar="TAGS", help="Tags.")] = None,
    key: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Index key; repeatable.")] = None,
    uniq_key: Annotated[str | None, typer.Option(metavar="KEY", help="The producer's unique key.")] = None,
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
    store_host: StoreHostOption = None,
    flush: FlushOption = None,
    transient_pool: TransientPool = False,
    recover: Annotated[bool, typer.Option("--recover", help="Recover first after a crash or damage.")] = False,
    force_empty_log: ForceEmptyLog = False,
    compat: CompatOption = None,
) -> Result:
    """Append messages to the store.

    Creates a store in an empty or missing folder. A store that was not shut down, or that has damage in front of
    messages, is refused without --recover. If `rmqctl serve` has the store open, the messages go through its process.

    --input is a file, or a folder that export wrote. A line is the message object of get, with the body in base64 or as
    `body_text`; .parquet and .csv hold the columns of export. By default (--as-new) each message is put once, as a
    producer would send it. Half messages and transaction ends are left out. So are copies for a delay or a retry if
    the message itself is in the input; a message that still waits is put last. With --half the message waits for
    `transaction resolve`.
    """
    session: Session = ctx.obj
    choices: dict[str, Any] = {"recover": recover, "force_empty_log": force_empty_log, "compat": compat}
    open_for_writing = partial(_open_or_connect, session, topic, _settings(flush, transient_pool), **choices)
    _check_half(half)
    if from_file is not None:
        from rmqctl.put_files import files_of
        from rmqctl.put_lines import LinePut

        if from_file != "-":
            # Refused before the store is opened, and perhaps created.
            files_of(from_file)
        form = PutForm.given(as_stored, keep_times, topic_map, queue_map, _store_host(session, store_host))
        return LinePut(session, open_for_writing(), form, from_file, topic).result()
    topic = _require_topic(topic, for_from=bool(as_stored or keep_times or topic_map or queue_map))
    row = {
        "topic": topic, "queue_id": queue, "tags": tags, "keys": key or [], "uniq_key": uniq_key, "flag": flag,
        "delay_level": delay_level, "transaction": transaction.value, "properties": _parse_properties(property or ()),
    }  # fmt: skip
    from rmqctl.put_rows import say_empty_bodies, say_refused_topics

    say_refused_topics(session, {topic})
    message = _message(session, row, _read_body(session, body, body_file), store_host)
    say_empty_bodies(session, not message.body)
    return (_put_one if half is None else partial(_put_half, group=half))(session, open_for_writing(), message)


def _tell_of_compaction(session: Session, topic: str | None) -> None:
    """Warn that messages of compacted topics (5.x) get no copy in the compaction log."""
    from store.files import Filesystem
    from store.layout import StoreLayout
    from store.structures import topic_attribute

    config, fs = StoreLayout(session.store.root).config, Filesystem()
    if not topic_attribute(config, fs, "cleanup.policy"):
        return
    from store.structures import compacted_topics

    found = compacted_topics(config, fs)
    named = sorted(found if topic is None else found & {topic})
    if named:
        session.warn(
            f"a put does not feed the compaction log of {', '.join(named)}, which consumers read: put messages of "
            "such topics through the broker, or run `rmqctl rebuild compaction` afterwards"
        )


def _require_topic(topic: str | None, *, for_from: bool) -> str:
    if for_from:
        raise typer.BadParameter("--as-stored, --keep-times, --topic-map and --queue-map are for --input")
    if topic is None:
        raise typer.BadParameter("give a TOPIC, or --input with a file of messages")
    return topic


def _open_or_connect(
    session: Session,
    topic: str | None,
    settings: dict[str, str],
    *,
    recover: bool,
    force_empty_log: bool,
    compat: Compat | None,
) -> WritableStore | StoreClient:
    """Return the store itself, or the process that serves it."""
    _tell_of_compaction(session, topic)
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


def _store_host(session: Session, given: str | None) -> Host | None:
    """Return the store host by the option or settings; None without them."""
    from store import Host, StoreConfig
    from store.formats import port_fault

    settings = session.store.settings()
    if given is None and settings.keys().isdisjoint({"brokerIP1", "listenPort"}):
        return None
    config = StoreConfig().with_settings(settings)
    host = Host.parse(given or f"{config.broker_ip1}:{config.listen_port}")
    if fault := port_fault(host, host):
        raise typer.BadParameter(fault.replace("born_host", "the store host"), param_hint="--store-host")
    return host


def _parse_properties(texts: Sequence[str]) -> dict[str, str]:
    pairs = [_parse_property(text) for text in texts]
    found = dict(pairs)
    if len(found) < len(pairs):
        raise typer.BadParameter(
            "a property is given twice, and a message has one value of it", param_hint="--property"
        )
    return found


def _parse_property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
    return name, value


def _read_body(session: Session, body: str | None, body_file: str | None) -> bytes:
    if body_file is not None:
        with nullcontext(session.environment.stdin) if body_file == "-" else Path(body_file).open("rb") as stream:
            body_bytes = stream.read(MOST_BODY_BYTES + 1)
        if len(body_bytes) > MOST_BODY_BYTES:
            raise typer.BadParameter(f"{body_file} has more than {MOST_BODY_BYTES} bytes", param_hint="--body-file")
        return body_bytes
    if body is None:
        raise typer.BadParameter("give a BODY, --body-file or --input")
    return body.encode(errors="surrogateescape")


def _message(session: Session, row: dict[str, Any], content: bytes, store_host: str | None) -> Message:
    from rmqctl.message_input import build_message

    row["store_host"] = str(_store_host(session, store_host) or "")
    try:
        return build_message(row, content, session.environment.clock_ms())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _check_half(group: str | None) -> None:
    if group == "":
        raise typer.BadParameter("a half message needs the name of its producer group", param_hint="--half")


def _put_half(session: Session, opened: WritableStore | StoreClient, message: Message, *, group: str) -> Result:
    from rmqctl.put_rows import result_of, row_of
    from store.engine.services import TransactionalMessageService
    from store.engine.serving import StoreClient
    from store.formats import HALF_TOPIC

    with session.interrupts.deferred():
        if isinstance(opened, StoreClient):
            answer = opened.transactions.prepare(message, group)
        else:
            service = TransactionalMessageService(opened, session.environment.clock_ms)
            answer = service.prepare(message, group)
            # Writes the number of open half messages (5.x).
            service.last_work()
    row = row_of(message, answer)
    row["topic"], row["queue_id"] = HALF_TOPIC, 0
    return result_of(session, row)


def _put_one(session: Session, opened: WritableStore | StoreClient, message: Message) -> Result:
    from rmqctl.put_rows import level_count_of, result_of, row_of
    from store.formats import waiting_level

    with session.interrupts.deferred():
        answer = opened.put(message)
    levels = level_count_of(opened)
    asked = waiting_level(message, sys.maxsize)
    if asked > levels:
        session.note(f"note: --delay-level {asked} is above the greatest level of messageDelayLevel: {levels} is used")
    return result_of(session, row_of(message, answer, levels))
