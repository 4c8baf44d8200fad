"""The rows of a put's result, and from their statuses the exit code and messages to the user.

Puts of many messages defer signals, so that every stored message has its row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NotRequired, TypedDict

from rmqctl.exit_codes import FINDINGS, IO_ERROR, OK
from rmqctl.result import Result, Table
from rmqctl.show import count
from store.formats import SCHEDULE_TOPIC, waiting_level

if TYPE_CHECKING:
    from rmqctl.context import Session
    from rmqctl.put_form import PutForm
    from store import Message, MessageColumns, PutManyResult, PutResult, WritableStore
    from store.engine.serving import StoreClient
    from store.reading import LineColumns

DELAY_MARK = b"DELAY\x01"
NO_SEGMENT = "CREATE_MAPEDFILE_FAILED"
SHOWN = ("status", "topic", "queue_id", "queue_offset", "log_offset", "size", "msg_id")


class PutRow(TypedDict):
    """One message that was put."""

    status: str
    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    size: int
    msg_id: str
    store_timestamp_ms: int
    reason: NotRequired[str]


def level_count_of(opened: WritableStore | StoreClient) -> int:
    """Return the number of the store's delay levels."""
    from store import WritableStore

    return len(opened.config.delay_levels_ms) if isinstance(opened, WritableStore) else opened.delay_level_count


def row_of(message: Message, answer: PutResult, level_count: int = 0) -> PutRow:
    """Return the row of a message that was put alone.

    level_count  delay levels of the store: a delayed message has the topic and queue where it waits
    """
    topic, queue_id = _place(message, level_count)
    row: PutRow = {
        "status": answer.status.value,
        "topic": topic,
        "queue_id": queue_id,
        "queue_offset": answer.queue_offset,
        "log_offset": answer.log_offset,
        "size": answer.size,
        "msg_id": answer.msg_id,
        "store_timestamp_ms": answer.store_timestamp_ms,
    }
    if answer.reason:
        row["reason"] = answer.reason
    return row


def put_through_socket(session: Session, client: StoreClient, form: PutForm, found: LineColumns) -> PutManyResult:
    """Put the messages through the process that serves the store."""
    from store import PutManyResult

    messages = [found.messages.message(row) for row in range(len(found))]
    if form.is_plain:
        with session.interrupts.deferred():
            return PutManyResult.of(client.put_all(messages))
    with session.interrupts.deferred():
        return PutManyResult.of([form.put(client, *one) for one in zip(messages, found.times(), strict=True)])


def put_columns(session: Session, opened: WritableStore, form: PutForm, found: LineColumns) -> PutManyResult:
    """Put the messages by one call."""
    import numpy as np

    with session.interrupts.deferred():
        if form.is_plain:
            return opened.put_many(found.messages)
        times = None
        if form.keep_times:
            times = np.where(found.has_time, found.store_timestamps_ms, session.environment.clock_ms())
        return opened.put_many_replayed(found.messages, as_stored=form.as_stored, store_timestamps_ms=times)


def rows_of_columns(
    answer: PutManyResult, messages: MessageColumns, level_count: int, rows: Iterable[int]
) -> Iterator[PutRow]:
    """Yield the rows of some messages that were put by one call.

    level_count  delay levels of the store: a delayed message has the topic and queue where it waits
    rows         the numbers of the messages, from 0
    """
    from store.formats import encode_message_id

    pairs, pair_of = messages.host_pairs()
    queue_ids = messages.numbers["queue_id"]
    level_count = level_count if messages.find_in_properties(DELAY_MARK) else 0
    for number in rows:
        topic, queue_id = messages.topics[int(messages.topic_of[number])], int(queue_ids[number])
        if level_count:
            topic, queue_id = _place(messages.message(number), level_count)
        log_offset = int(answer.log_offsets[number])
        row: PutRow = {
            "status": answer.status_of(number).value,
            "topic": topic,
            "queue_id": queue_id,
            "queue_offset": int(answer.queue_offsets[number]),
            "log_offset": log_offset,
            "size": int(answer.sizes[number]),
            "msg_id": encode_message_id(pairs[int(pair_of[number])][1], log_offset) if log_offset >= 0 else "",
            "store_timestamp_ms": int(answer.store_timestamps_ms[number]),
        }
        if number in answer.refused:
            row["reason"] = answer.refused[number].reason
        yield row


def _place(message: Message, level_count: int) -> tuple[str, int]:
    """Return the topic and queue id of the stored message."""
    level = waiting_level(message, level_count)
    return (SCHEDULE_TOPIC, level - 1) if level > 0 else (message.topic, message.queue_id)


def result_of(session: Session, row: PutRow) -> Result:
    """Return the result of a put of one message."""
    say_no_segment(session, row)
    say_too_long(session, [row])
    verdict = "stored" if row["status"] == "PUT_OK" else _refusal(row)
    shown = (*SHOWN, "reason") if "reason" in row else SHOWN
    return Result("put", {}, [Table("results", [row], shown)], exit_code([row["status"]]), verdict)


def _refusal(row: PutRow) -> str:
    reason = row.get("reason")
    return f"refused: {reason} ({row['status']})" if reason else f"not stored as given: {row['status']}"


def exit_code(statuses: Collection[str]) -> int:
    """Return the code of a failed put.

    IO_ERROR if a segment could not be created, FINDINGS for another refusal.
    """
    if NO_SEGMENT in statuses:
        return IO_ERROR
    return FINDINGS if set(statuses) - {"PUT_OK"} else OK


def say_no_segment(session: Session, row: PutRow) -> None:
    """Report the reason if a put found no segment to write to."""
    if row["status"] == NO_SEGMENT:
        session.fail(row["reason"])


def say_refused_topics(session: Session, topics: Collection[str]) -> None:
    """Warn of topics that no producer can send to."""
    from store.formats import topic_fault

    for topic in sorted(topics):
        if fault := topic_fault(topic):
            session.warn(f"a broker refuses the topic {topic!r} from producers: it {fault}")


def say_empty_bodies(session: Session, empty_count: int) -> None:
    """Warn of messages with an empty body.

    Source: Validators.checkMessage, ProcessQueue.putMessage (4.9.8).
    """
    if empty_count:
        empty = f"{count(empty_count, 'message')} with an empty body, which no producer can send"
        session.warn(f"{empty}: a 4.9 client decodes it as null, and drops all messages of its pull")


def say_too_long(session: Session, refused: Sequence[PutRow]) -> None:
    """Note the option that allows a refused topic of more than 127 bytes."""
    if any("4.x" in row.get("reason", "") for row in refused):
        session.note("--compat 5.3 makes a new store that takes longer topics")
