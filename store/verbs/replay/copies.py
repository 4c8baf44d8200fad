"""Choose the messages to put or send again, each of them once.

A store holds more records than its producers sent. Records that a broker wrote by itself are left out and counted:

    half        half messages: a committed one has a record of its own in its topic
    op          the marks of ended transactions
    discarded   half messages that were checked too often
    delayed     a message that waits for its time, if its delivered copy is there
    retried     copies for consumers that failed (%RETRY%, %DLQ%), if the message itself is there

A message and its copies share an identity: the producer's unique key, or else the fields that the producer set. The
copy may come later, so waiting messages come last, and only if no other message has their identity.
"""

from __future__ import annotations

import struct
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import IO

from store.formats.message import TRANSACTION_MASK, Message
from store.formats.properties import (
    REAL_QUEUE_ID,
    REAL_TOPIC,
    UNIQ_KEY,
    decode_properties,
    encode_properties,
)
from store.formats.topics import (
    DISCARD_TOPIC,
    DLQ_PREFIX,
    HALF_TOPICS,
    OP_TOPICS,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)
from store.layout import parse_whole_number
from store.structures.commitlog.bulk import MessageColumns
from store.structures.commitlog.rewritten import is_copy

HALVES = dict.fromkeys(HALF_TOPICS, "half") | {DISCARD_TOPIC: "discarded"}
OPS = dict.fromkeys(OP_TOPICS, "op")
OF_A_COPY = (
    "DELAY", "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "TRANSACTION_CHECK_TIMES", "TIMER_DELAY_SEC", "TIMER_DELAY_MS",
    "TIMER_DELIVER_MS", "TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES",
)  # fmt: skip
"""Properties that a broker set on a delivered or committed message, and those of the elapsed delay."""
RETRY_TOPIC = b"RETRY_TOPIC\x01"
_IN_MEMORY = 32 << 20
_SIZE = struct.Struct(">I")


class CopyFilter:
    """A filter of a broker's copies of messages. With `halves`, half messages wait for their end."""

    def __init__(self, *, halves: bool = False) -> None:
        self.left_out: Counter[str] = Counter()
        self._never = OPS if halves else HALVES | OPS
        self._seen = array("q")
        self._waiting: list[tuple[int, str]] = []
        self._data: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 # lives as long as the filter

    def choose(self, message: Message, data: bytes) -> Message | None:
        """Return the message as its producer sent it.

        None if the message is left out, or its `data` waits until all others are seen.
        """
        if (kind := self._never.get(message.topic)) is not None:
            self.left_out[kind] += 1
            return None
        properties = decode_properties(message.properties)
        identity = identity_of(message, properties)
        if (kind := waits_as(message.topic)) is not None:
            is_retry = properties.get(REAL_TOPIC, "").startswith((RETRY_PREFIX, DLQ_PREFIX))
            self._waiting.append((identity, "retried" if kind == "delayed" and is_retry else kind))
            self._data.write(_SIZE.pack(len(data)) + data)
            return None
        self._seen.append(identity)
        return as_produced(message, properties)

    def chooses(self, topic: str) -> bool:
        """Return whether messages of the topic go through `choose`; so do the copies that `is_copy` finds."""
        return topic in self._never or waits_as(topic) is not None

    def see(self, messages: MessageColumns, uniq_keys: Sequence[bytes | None]) -> None:
        """Note messages that are not copies.

        uniq_keys  their unique keys, b"" for none; None for a message that went through `choose`
        """
        if all(uniq_keys):
            self._seen.extend(map(hash, uniq_keys))
            return
        for row, key in enumerate(uniq_keys):
            if key:
                self._seen.append(hash(key))
            elif key is not None:
                message = messages.message(row)
                has_topic = RETRY_TOPIC in message.properties
                properties = decode_properties(message.properties) if has_topic else {}
                self._seen.append(identity_of(message, properties))

    def waiting(self) -> Iterator[bytes]:
        """Yield the data of the waiting messages whose identity no other message has."""
        there = {identity for identity, _ in self._waiting}.intersection(self._seen)
        self._data.seek(0)
        for identity, kind in self._waiting:
            data = self._data.read(*_SIZE.unpack(self._data.read(_SIZE.size)))
            if identity in there:
                self.left_out[kind] += 1
            else:
                there.add(identity)
                yield data


def waits_as(topic: str) -> str | None:
    """Return the kind of a record that is a copy or will be copied; None for a message itself."""
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return "retried"
    return "delayed" if topic in (SCHEDULE_TOPIC, TIMER_TOPIC) else HALVES.get(topic)


def as_produced(message: Message, properties: dict[str, str]) -> Message:
    """Return a delivered or committed message without the marks of the broker."""
    if not is_copy(message.sys_flag, properties):
        return message
    kept = {name: value for name, value in properties.items() if name not in OF_A_COPY}
    sys_flag = message.sys_flag & ~TRANSACTION_MASK
    return replace(message, properties=encode_properties(kept), sys_flag=sys_flag, prepared_transaction_offset=0)


def identity_of(message: Message, properties: dict[str, str]) -> int:
    """Return 64 bits that a message and its copies share.

    They are valid in this process only: Python's hash of bytes has a random key.
    """
    if said := properties.get(UNIQ_KEY):
        return hash(said.encode("utf-8", "surrogatepass"))
    topic = _topic_of(message, properties)
    return hash((topic, message.born_timestamp_ms, message.born_host, message.flag, bytes(message.body)))


def _topic_of(message: Message, properties: dict[str, str]) -> str:
    return properties.get("RETRY_TOPIC") or properties.get(REAL_TOPIC) or message.topic


def at_real_place(message: Message) -> Message:
    """Return a message that waits in one of the broker's topics as its producer sent it."""
    if message.topic not in (SCHEDULE_TOPIC, *HALVES):
        return message
    found = decode_properties(message.properties)
    topic, queue_id = found.pop(REAL_TOPIC, ""), parse_whole_number(found.pop(REAL_QUEUE_ID, ""))
    if not topic or queue_id is None:
        return message
    return replace(message, topic=topic, queue_id=queue_id, properties=encode_properties(found))
