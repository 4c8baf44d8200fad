"""Build the records of a transaction as a broker writes them.

    half       the producer's message in RMQ_SYS_TRANS_HALF_TOPIC: REAL_TOPIC and REAL_QID are added, the transaction
               bits cleared, so that it has a queue unit like any other
    put back   the half once more, at its queue's end; flag and reconsumeTimes become 0
    commit     the half in its real place: transaction bits 0x8, preparedTransactionOffset is the half's log offset
    op         RMQ_SYS_TRANS_OP_HALF_TOPIC, tag d; the body lists half queue offsets: `17` (4.9) or `17,18,` (5.3)
    discard    the half in TRANS_CHECK_MAX_TIME_TOPIC

Properties are written from a map, so their order is a Java HashMap's.

Source: TransactionalMessageBridge, TransactionalMessageServiceImpl, EndTransactionProcessor,
DefaultTransactionalMessageCheckListener (4.9.8, 5.3.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from store.broker_line import LINE_4_9, BrokerLine
from store.errors import BadRequest
from store.formats.host import Host
from store.formats.message import TRANSACTION_COMMIT, TRANSACTION_MASK, Message, StoredMessage
from store.formats.properties import (
    DELAY,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    UNIQ_KEY,
    WAIT,
    decode_properties,
    encode_java_map,
    real_queue,
)
from store.formats.topics import DISCARD_TOPIC, HALF_TOPIC, OP_TOPIC

OP_TAG = "d"
OFFSET_SEPARATOR = ","
TRANSACTION_MARK = "TRAN_MSG"
PRODUCER_GROUP = "PGROUP"
TRANSACTION_ID = "__transactionId__"
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
DEFAULT_CAPACITY = 16
"""The default capacity of a Java HashMap."""


def half_message(message: Message, producer_group: str, line: BrokerLine, unique_key: str) -> Message:
    """Return the half of `message`, as producer and broker make it (parseHalfMessageInner).

    unique_key  for a message without one: it identifies copies of a half, and every client sets it
    """
    properties = decode_properties(message.properties)
    properties.setdefault(UNIQ_KEY, unique_key)
    # As in the client, remove the delay: a delayed half is dropped at its delivery.
    properties.pop(DELAY, None)
    properties |= {TRANSACTION_MARK: "true", PRODUCER_GROUP: producer_group}
    if line is not LINE_4_9:
        properties[TRANSACTION_ID] = properties[UNIQ_KEY]
    properties |= {REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(message.queue_id)}
    return replace(
        message,
        topic=HALF_TOPIC,
        queue_id=0,
        properties=encode_java_map(properties, ends_with_separator=line.ends_with_separator),
        sys_flag=message.sys_flag & ~TRANSACTION_MASK,
        prepared_transaction_offset=0,
    )


def put_back_message(half: StoredMessage, properties: Mapping[str, str], line: BrokerLine) -> Message:
    """Return a copy of `half` with other properties (renewHalfMessageInner)."""
    encoded = encode_java_map(properties, ends_with_separator=line.ends_with_separator)
    return replace(half.as_put(), properties=encoded, flag=0, reconsume_times=0, prepared_transaction_offset=0)


def immune_message(half: StoredMessage, properties: Mapping[str, str], line: BrokerLine) -> Message:
    """Return a copy of `half` that keeps its first queue offset (renewImmunityHalfMessageInner)."""
    first = properties.get(PREPARED_QUEUE_OFFSET, str(half.queue_offset))
    return put_back_message(half, {**properties, WAIT: "false", PREPARED_QUEUE_OFFSET: first}, line)


def commit_message(half: StoredMessage, line: BrokerLine) -> Message:
    """Return the committed message of `half`; BadRequest without its real queue (endMessageTransaction)."""
    properties = half.properties
    topic, queue_id = real_queue(properties)
    if topic is None or queue_id is None or queue_id < 0:
        raise BadRequest("the half message has no REAL_TOPIC, or no REAL_QID", offset=half.log_offset)
    if line.drops_real_topic:
        properties = {name: value for name, value in properties.items() if name not in (REAL_TOPIC, REAL_QUEUE_ID)}
    return replace(
        half.as_put(),
        topic=topic,
        queue_id=queue_id,
        properties=encode_java_map(properties, ends_with_separator=line.ends_with_separator),
        sys_flag=half.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT,
        prepared_transaction_offset=half.log_offset,
    )


def op_message(body: str, host: Host, now_ms: int, line: BrokerLine) -> Message:
    """Build the op record with this body (makeOpMessageInner)."""
    # The broker creates this map itself; in 5.3.3 it has a smaller capacity than decoded ones.
    properties = encode_java_map(
        {WAIT: "true", TAGS: OP_TAG}, capacity=DEFAULT_CAPACITY, ends_with_separator=line is not LINE_4_9
    )
    return Message(OP_TOPIC, body.encode(), 0, properties, born_timestamp_ms=now_ms, born_host=host, store_host=host)


def op_body(half_offset: int, line: BrokerLine) -> str:
    """Return the text of a half queue offset in an op record."""
    return str(half_offset) if line is LINE_4_9 else f"{half_offset}{OFFSET_SEPARATOR}"


def discard_message(half: StoredMessage, properties: Mapping[str, str], line: BrokerLine) -> Message:
    """Return the record of a discarded half (toMessageExtBrokerInner)."""
    encoded = encode_java_map(properties, ends_with_separator=line.ends_with_separator)
    return replace(half.as_put(), topic=DISCARD_TOPIC, queue_id=0, properties=encoded, prepared_transaction_offset=0)
