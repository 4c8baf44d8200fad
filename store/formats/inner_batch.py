"""Unwrap the messages inside one record: consecutive encodings, without a count.

    int size | int magic 0 | int CRC 0 | int flag | int body size | body | short properties size | properties

Topic, queue, hosts, times and sys flag are those of the record. The i-th message has the queue offset INNER_BASE + i.
A broker with queues in a RocksDB adds no INNER_BASE: the first message has the queue offset of the record.

Source: MessageDecoder.encodeMessage, decodeMessage, countInnerMsgNum, CommitLog.getMessageNum (5.3.3).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

from store.errors import DamagedRecord
from store.formats.java import crc32
from store.formats.message import INNER_BATCH, Message, StoredMessage
from store.formats.properties import INNER_BASE, INNER_NUM, decode_properties

_HEADER = struct.Struct(">iiiii")
_PROPERTIES_SIZE = struct.Struct(">h")
INNER_MIN_SIZE = _HEADER.size + _PROPERTIES_SIZE.size
NEED_UNWRAP = 0x40
MAX_MESSAGE_COUNT = (1 << 15) - 1


def inner_batch_of(properties: dict[str, str], queue_offset: int | None = None) -> tuple[int, int] | None:
    """Return first queue offset and message count, None for a record of one message.

    queue_offset  the record's, if it has the flag INNER_BATCH; taken without INNER_BASE
    """
    first = properties.get(INNER_BASE, queue_offset)
    if INNER_NUM not in properties or first is None:
        return None
    try:
        base, count = int(first), int(properties[INNER_NUM])
    except ValueError:
        # A broker's dispatch fails here (NumberFormatException); no put writes such a record.
        return None
    return (base, count) if -MAX_MESSAGE_COUNT <= count <= MAX_MESSAGE_COUNT else None


def at_queue_offset(message: Message, queue_offset: int) -> tuple[Message, int]:
    """Return a message for a queue's next offset, and the number of offsets that it takes.

    A record of several messages has the first of its queue offsets in INNER_BASE. It is added to a record that a
    broker with queues in a RocksDB wrote.
    """
    values = decode_properties(message.properties) if message.sys_flag & INNER_BATCH else {}
    found = inner_batch_of(values, queue_offset)
    if found is None or found[1] < 1:
        return message, 1
    old, new = (b"%s\x01%d\x02" % (INNER_BASE.encode(), base) for base in (found[0], queue_offset))
    if INNER_BASE in values:
        properties = (b"\x02" + message.properties + b"\x02").replace(b"\x02" + old, b"\x02" + new)[1:-1]
    else:
        properties = message.properties.removesuffix(b"\x02") + b"\x02" + new
    return replace(message, properties=properties), found[1]


def unwrap(record: StoredMessage) -> Iterator[StoredMessage]:
    """Yield the messages inside a record; DamagedRecord if its body is malformed."""
    found = inner_batch_of(record.properties, record.queue_offset)
    first = found[0] if found is not None else record.queue_offset
    is_sound = record.is_crc_right
    for number, (flag, body, properties) in enumerate(_parts(record)):
        yield replace(
            record,
            queue_offset=first + number,
            flag=flag,
            body=body,
            property_text=properties,
            sys_flag=record.sys_flag & ~(INNER_BATCH | NEED_UNWRAP),
            # An inner message has no CRC; the record's CRC covers all of them.
            body_crc=crc32(body) if is_sound else record.body_crc,
            outer_queue_offset=record.queue_offset,
        )


def count_inner(record: StoredMessage) -> int:
    """Return the number of messages inside a record."""
    return sum(1 for _ in _parts(record))


def inner_parts(body: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield start and stop of each inner body, and start and stop of its properties.

    In a damaged encoding, all bytes after the faulty fields count as a body.
    """
    at = 0
    while len(body) - at >= INNER_MIN_SIZE:
        size, _, _, _, body_size = _HEADER.unpack_from(body, at)
        start = at + _HEADER.size
        if not 0 <= body_size <= size - INNER_MIN_SIZE or at + size > len(body):
            yield start, len(body), 0, 0
            return
        stop = start + body_size
        (properties_size,), properties = _PROPERTIES_SIZE.unpack_from(body, stop), stop + _PROPERTIES_SIZE.size
        at += size
        if properties + properties_size != at:
            yield start, stop, 0, 0
            yield properties, len(body), 0, 0
            return
        yield start, stop, properties, at
    yield at, len(body), 0, 0


def _parts(record: StoredMessage) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield flag, body and property string of each message."""
    body, at = record.body, 0
    while at < len(body):
        if len(body) - at < INNER_MIN_SIZE:
            raise _damaged(record, at, f"{len(body) - at} bytes are left, a message takes {INNER_MIN_SIZE} at least")
        size, _, _, flag, body_size = _HEADER.unpack_from(body, at)
        start = at + _HEADER.size
        if not 0 <= body_size <= size - INNER_MIN_SIZE or at + size > len(body):
            raise _damaged(record, at, f"a message claims {size} bytes with a body of {body_size}")
        stop = start + body_size
        (properties_size,) = _PROPERTIES_SIZE.unpack_from(body, stop)
        properties = stop + _PROPERTIES_SIZE.size
        if properties + properties_size != at + size:
            raise _damaged(record, at, f"a message of {size} bytes claims properties of {properties_size}")
        yield flag, body[start:stop], body[properties : properties + properties_size]
        at += size


def _damaged(record: StoredMessage, at: int, reason: str) -> DamagedRecord:
    return DamagedRecord(
        f"the messages inside the record cannot be read: at byte {at} {reason}", offset=record.log_offset
    )
