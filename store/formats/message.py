"""The commit-log record, and the blank that ends a segment.

    | total | magic | CRC | queue | flag | queue  | log    | sys  | born | born | store | store | recon- | prepared |
    | size  |       |     | id    |      | offset | offset | flag | time | host | time  | host  | sumed  | offset   |
      4       4       4     4       4      8        8        4      8      8|20   8       8|20    4        8
    | body size | body | topic size | topic | properties size | properties |
      4                  1|2 (V2)             2

The redundant fields: with magic and log offset (bytes 28..35, the record's own address) a reader resumes after damage.
The total size must equal the sum of the parts. The CRC covers only the body: torn properties show as a wrong size, or
by the next record.
A host has 20 bytes instead of 8 if its bit in the sys flag is set. V2 (5.x) has a two-byte topic size, for topics
of more than 127 characters. If the next record does not fit, the rest of the segment is a blank: its size and the
blank magic, followed by arbitrary bytes.

Java names: log_offset is physicalOffset, queue_offset is logicsOffset.
Source: CommitLog.MessageExtEncoder, MessageDecoder, MessageSysFlag (4.9.8); MessageExtEncoder, MessageVersion (5.3.3).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from typing import TypedDict, Unpack

from store.errors import DamagedRecord, WrongKind, quoted
from store.formats.columns import DamageReason
from store.formats.fields import Field, fields_of
from store.formats.given import check_message, check_number, check_property, check_same, check_text, join_texts
from store.formats.host import IPV4_HOST_SIZE, IPV6_HOST_SIZE, LOCALHOST, Host
from store.formats.java import crc32, decode_utf8
from store.formats.message_id import encode_message_id
from store.formats.properties import (
    DELAY,
    DELAY_MARK,
    KEY_SEPARATOR,
    KEYS,
    TAGS,
    UNIQ_KEY,
    Properties,
    decode_properties,
    delay_level,
    encode_properties,
)

MESSAGE_MAGIC_V1 = 0xDAA320A7
MESSAGE_MAGIC_V2 = 0xDAA320AB
BLANK_MAGIC = 0xCBD43194
MESSAGE_MAGIC_V1_SIGNED = MESSAGE_MAGIC_V1 - (1 << 32)
MESSAGE_MAGIC_V2_SIGNED = MESSAGE_MAGIC_V2 - (1 << 32)
BLANK_MAGIC_SIGNED = BLANK_MAGIC - (1 << 32)
assert (MESSAGE_MAGIC_V1_SIGNED, MESSAGE_MAGIC_V2_SIGNED) == (-626843481, -626843477)
assert BLANK_MAGIC_SIGNED == -875286124

# Positions of the fields before the first host.
MAGIC_AT, FLAG_AT, QUEUE_OFFSET_AT = 4, 16, 20
LOG_OFFSET_AT, SYS_FLAG_AT, BORN_TIMESTAMP_AT, BORN_HOST_AT = 28, 36, 40, 48

# The fields up to and including the body size, for each pair of host sizes.
_HEADERS = {
    (born, store): struct.Struct(f">IIIiiqqiq{born}sq{store}siqi")
    for born in (IPV4_HOST_SIZE, IPV6_HOST_SIZE)
    for store in (IPV4_HOST_SIZE, IPV6_HOST_SIZE)
}
HEADER_NAMES = (
    "size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "log_offset", "sys_flag", "born_timestamp_ms",
    "born_host", "store_timestamp_ms", "store_host", "reconsume_times", "prepared_transaction_offset", "body_size",
)  # fmt: skip
HEADER_V4 = _HEADERS[IPV4_HOST_SIZE, IPV4_HOST_SIZE]
BLANK = struct.Struct(">iI")
BLANK_NAMES = ("size", "magic")
BLANK_SIZE = 8
PROPERTIES_SIZE = struct.Struct(">h")
TOPIC_SIZE_V1 = struct.Struct(">b")
TOPIC_SIZE_V2 = struct.Struct(">h")
RECORD_MIN_SIZE = HEADER_V4.size + TOPIC_SIZE_V1.size + PROPERTIES_SIZE.size
assert (HEADER_V4.size, RECORD_MIN_SIZE, BLANK.size) == (88, 91, BLANK_SIZE)

MAX_TOPIC_SIZE_V1 = 127

# sysFlag bits (MessageSysFlag).
COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_MASK = 0xC
TRANSACTION_NONE = 0x0
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
BORN_HOST_IPV6 = 0x10
STORE_HOST_IPV6 = 0x20
INNER_BATCH = 0x80


class MessageFields(TypedDict, total=False):
    """The numbers and hosts that Message.of accepts as keywords."""

    queue_id: int
    flag: int
    sys_flag: int
    born_timestamp_ms: int | None
    born_host: Host
    store_host: Host
    reconsume_times: int
    prepared_transaction_offset: int


@dataclass(slots=True)
class Message:
    """A producer's message (Java: MessageExtBrokerInner).

    properties         the property string, verbatim
    born_timestamp_ms  None: the time of the put
    """

    topic: str
    body: bytes = b""
    queue_id: int = 0
    properties: bytes = b""
    flag: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int | None = None
    born_host: Host = LOCALHOST
    store_host: Host = LOCALHOST
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0

    @classmethod
    def of(
        cls,
        topic: str,
        body: bytes | str = b"",
        *,
        keys: Iterable[str] = (),
        tags: str | None = None,
        uniq_key: str | None = None,
        delay_level: int = 0,
        properties: Mapping[str, str] | None = None,
        **fields: Unpack[MessageFields],
    ) -> Message:
        """Make a message from named values; `fields` are those of the class, such as queue_id or born_host.

        >>> Message.of("Orders", "hello", keys=["order-1"], tags="paid", queue_id=3).properties
        b'KEYS\\x01order-1\\x02TAGS\\x01paid'

        Raises TypeError for a value of a wrong kind, BadRequest for a value that a record cannot hold: too large a
        number, a lone surrogate, or the bytes that separate properties; also for two values of one property.
        """
        named = {KEYS: join_texts("keys", keys, KEY_SEPARATOR), TAGS: tags, UNIQ_KEY: uniq_key}
        level = check_number("delay_level", delay_level, least=0)
        named[DELAY] = str(level) if level else None
        if properties is not None and not isinstance(properties, Mapping):
            raise WrongKind(f"properties is not a mapping, but {type(properties).__name__}")
        given = {name: value for name, value in named.items() if value not in (None, "")}
        check_same(properties or {}, given)
        values = {**(properties or {}), **given}
        for name, value in values.items():
            check_property("the name of a property", name)
            check_property(f"property {quoted(name)}", value)
        data = check_text("body", body).encode() if isinstance(body, str) else body
        message = cls(topic, data, properties=encode_properties(values), **fields)
        check_message(message)
        return message


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A decoded record (Java: MessageExt). `raw` is the record; `body` is stored, maybe compressed."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    size: int
    body_crc: int
    flag: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: Host
    store_timestamp_ms: int
    store_host: Host
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    property_text: bytes
    raw: bytes
    outer_queue_offset: int | None = None
    """Queue offset of the record around this inner message (5.x); None for a record's own message."""

    def as_put(self) -> Message:
        """Return the message as a producer would put it, but with the stored body."""
        return Message(
            self.topic,
            self.body,
            self.queue_id,
            self.property_text,
            self.flag,
            self.sys_flag,
            self.born_timestamp_ms,
            self.born_host,
            self.store_host,
            self.reconsume_times,
            self.prepared_transaction_offset,
        )

    @property
    def properties(self) -> dict[str, str]:
        return decode_properties(self.property_text)

    @property
    def msg_id(self) -> str:
        return encode_message_id(self.store_host, self.log_offset)

    @property
    def uniq_key(self) -> str | None:
        return self.properties.get(UNIQ_KEY)

    @property
    def keys(self) -> list[str]:
        return self.read_properties().keys

    @property
    def tags(self) -> str | None:
        return self.properties.get(TAGS)

    def read_properties(self) -> Properties:
        """Decode the property string once, for several properties."""
        return Properties.decode(self.property_text)

    @property
    def is_crc_right(self) -> bool:
        return not self.body or crc32(self.body) == self.body_crc


def record_size(body_size: int, topic_size: int, properties_size: int, sys_flag: int = 0, *, v2: bool = False) -> int:
    """Return the bytes of a record with parts of these byte sizes (CommitLog.calMsgLength)."""
    hosts = (IPV6_HOST_SIZE - IPV4_HOST_SIZE) * (bool(sys_flag & BORN_HOST_IPV6) + bool(sys_flag & STORE_HOST_IPV6))
    return RECORD_MIN_SIZE + hosts + v2 + body_size + topic_size + properties_size


@lru_cache(maxsize=4096)
def host_flags(born_host: Host, store_host: Host) -> int:
    """Return the sys flag bits for the sizes of the hosts."""
    return (BORN_HOST_IPV6 if born_host.is_ipv6 else 0) | (STORE_HOST_IPV6 if store_host.is_ipv6 else 0)


def store_timestamp_at(sys_flag: int) -> int:
    """Return the position of the store time in a record; it depends on the born host's size."""
    return BORN_HOST_AT + (IPV6_HOST_SIZE if sys_flag & BORN_HOST_IPV6 else IPV4_HOST_SIZE)


def encode_record(
    message: Message,
    *,
    topic: bytes,
    sys_flag: int,
    queue_offset: int,
    log_offset: int,
    store_timestamp_ms: int,
) -> bytes:
    """Return the bytes of one record. The caller checks sizes; `sys_flag` must have the host bits.

    topic  in UTF-8: up to 127 bytes give a V1 record, more a V2 record
    """
    born_ms = message.born_timestamp_ms
    body, properties = message.body, message.properties
    born, stored = message.born_host.encode(), message.store_host.encode()
    v2 = len(topic) > MAX_TOPIC_SIZE_V1
    header = _HEADERS[len(born), len(stored)]
    topic_size = TOPIC_SIZE_V2 if v2 else TOPIC_SIZE_V1
    total = header.size + len(body) + topic_size.size + len(topic) + PROPERTIES_SIZE.size + len(properties)
    head = header.pack(
        total, MESSAGE_MAGIC_V2 if v2 else MESSAGE_MAGIC_V1, crc32(body), message.queue_id, message.flag, queue_offset,
        log_offset, sys_flag, store_timestamp_ms if born_ms is None else born_ms, born, store_timestamp_ms, stored,
        message.reconsume_times, message.prepared_transaction_offset, len(body),
    )  # fmt: skip
    tail = topic_size.pack(len(topic)) + topic + PROPERTIES_SIZE.pack(len(properties)) + properties
    return head + body + tail


def decode_record(
    record: bytes | memoryview, *, file: str | PathLike[str] | None = None, position: int | None = None
) -> StoredMessage:
    """Return the message in `record`, exactly one whole record.

    Raises DamagedRecord with `file` and `position` if fields contradict each other; the CRC is not checked.
    """
    raw = bytes(record)
    try:
        return _decode(raw)
    except (struct.error, _Contradiction) as error:
        reason = str(error) if isinstance(error, _Contradiction) else DamageReason.BAD_SIZE.describe()
        raise DamagedRecord(reason, file=file, offset=position) from None


class _Contradiction(Exception):
    """Two fields of a record contradict each other."""


def _decode(raw: bytes) -> StoredMessage:
    magic, sys_flag = (int.from_bytes(raw[at : at + 4], "big") for at in (MAGIC_AT, SYS_FLAG_AT))
    if magic not in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2):
        raise _Contradiction(DamageReason.BAD_MAGIC.describe())
    header = _HEADERS[
        IPV6_HOST_SIZE if sys_flag & BORN_HOST_IPV6 else IPV4_HOST_SIZE,
        IPV6_HOST_SIZE if sys_flag & STORE_HOST_IPV6 else IPV4_HOST_SIZE,
    ]
    fields = header.unpack_from(raw)
    body, at = _part(raw, header.size, max(0, fields[14]), DamageReason.BODY_BEYOND)
    topic_size_field = TOPIC_SIZE_V2 if magic == MESSAGE_MAGIC_V2 else TOPIC_SIZE_V1
    (topic_size,) = topic_size_field.unpack_from(raw, at)
    if topic_size < 0:
        raise _Contradiction(DamageReason.NEGATIVE_TOPIC.describe())
    topic, at = _part(raw, at + topic_size_field.size, topic_size, DamageReason.TOPIC_BEYOND)
    (properties_size,) = PROPERTIES_SIZE.unpack_from(raw, at)
    properties, at = _part(raw, at + PROPERTIES_SIZE.size, max(0, properties_size), DamageReason.PROPERTIES_BEYOND)
    if not fields[0] == at == len(raw):
        raise _Contradiction(DamageReason.LENGTH_MISMATCH.describe())
    return StoredMessage(
        topic=decode_utf8(topic),
        queue_id=fields[3],
        queue_offset=fields[5],
        log_offset=fields[6],
        size=fields[0],
        body_crc=fields[2],
        flag=fields[4],
        sys_flag=fields[7],
        born_timestamp_ms=fields[8],
        born_host=Host.decode(fields[9]),
        store_timestamp_ms=fields[10],
        store_host=Host.decode(fields[11]),
        reconsume_times=fields[12],
        prepared_transaction_offset=fields[13],
        body=body,
        property_text=properties,
        raw=raw,
    )


def _part(raw: bytes, start: int, size: int, beyond: DamageReason) -> tuple[bytes, int]:
    """Return the `size` bytes at `start`, and their end."""
    if start + size > len(raw):
        raise _Contradiction(beyond.describe())
    return raw[start : start + size], start + size


def record_fields(raw: bytes) -> list[Field]:
    """Return every field of a valid record, with its position and value."""
    message = _decode(raw)
    header = _HEADERS[len(message.born_host.encode()), len(message.store_host.encode())]
    fields = fields_of(header, HEADER_NAMES, raw)
    is_v2 = fields[1].value == MESSAGE_MAGIC_V2
    properties_size = len(message.property_text)
    topic_size = len(raw) - header.size - len(message.body) - properties_size - PROPERTIES_SIZE.size
    topic_size -= (width := TOPIC_SIZE_V2.size if is_v2 else TOPIC_SIZE_V1.size)
    shown = {"born_host": str(message.born_host), "store_host": str(message.store_host)}
    fields = [field._replace(value=shown.get(field.name, field.value)) for field in fields]
    tail = (
        ("body", len(message.body), message.body),
        ("topic_size", width, topic_size),
        ("topic", topic_size, message.topic),
        ("properties_size", PROPERTIES_SIZE.size, properties_size),
        ("properties", properties_size, message.properties),
    )
    at = header.size
    for name, size, value in tail:
        fields.append(Field(name, at, size, value))
        at += size
    return fields


def encode_blank(size: int) -> bytes:
    """Return the 8 bytes of an end-of-file blank that covers the last `size` bytes of a segment."""
    return BLANK.pack(size, BLANK_MAGIC)


def is_queued(sys_flag: int) -> bool:
    """Return whether a message gets a consume queue unit; prepared and rolled-back messages do not."""
    return sys_flag & TRANSACTION_MASK in (TRANSACTION_NONE, TRANSACTION_COMMIT)


def is_indexed(sys_flag: int) -> bool:
    """Return whether a broker indexes a message's keys; rolled-back messages are not indexed."""
    return sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK


def waiting_level(message: Message, level_count: int) -> int:
    """Return the delay level of a stored message, 0 for none.

    A level above the greatest becomes the greatest (CommitLog.asyncPutMessage, 4.9.8).
    """
    if DELAY_MARK not in message.properties or not is_queued(message.sys_flag):
        return 0
    return min(delay_level(decode_properties(message.properties)), level_count)
