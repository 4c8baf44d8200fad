"""The message that each record of a store becomes in a live cluster.

    a message                    itself; delivered and committed ones without the marks of the broker that did so
    waiting for a delay          itself at its real topic, with the rest of the delay; without one if the time is over
    %RETRY%group                 the same, for that group alone, with its count of retries
    %DLQ%group                   to %RETRY%group with a count of 0: this group alone gets it again
    half message                 left out; with `halves` a message at its real topic if nothing ended it
    delayed, retried, half       left out if the message itself is sent too (copies.py)
    end of a transaction, rolled-back, placeholder, recalled timer, topic of the broker's own, damaged body, empty
    body and one that cannot be decompressed (a consumer of 4.9 stops at both): left out

The consumer gets the same bytes. zlib bodies stay as they are stored; others are decompressed, as consumers of 4.x
support zlib alone. Hosts, store time and queue offset are the new broker's; keys, tags, flag and born time stay.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from store.formats.body import COMPRESSION_MASK, ZLIB, BodyState, compression_of, decode_body
from store.formats.message import (
    COMPRESSED,
    MULTI_TAGS,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    StoredMessage,
    decode_record,
)
from store.formats.properties import (
    INNER_BASE,
    INNER_MULTI_QUEUE_OFFSET,
    INNER_NUM,
    PLACEHOLDER,
    PROPERTIES_CRC,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_OUT_MS,
    UNIQ_KEY,
    delay_level,
)
from store.formats.topics import (
    DLQ_PREFIX,
    OP_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIX,
    TIMER_TOPIC,
    topic_fault,
)
from store.layout import parse_whole_number
from store.structures.commitlog.rewritten import is_copy
from store.verbs.replay.copies import HALVES, OF_A_COPY, OPS, CopyFilter, identity_of, waits_as

ORIGIN = "RMQCTL_ORIGIN"
"""The property with the origin of a message: message id of its record, a slash, id of the ledger."""
TRANSACTION_ID = "__transactionId__"
_KEPT_FLAGS = COMPRESSED | MULTI_TAGS | COMPRESSION_MASK
_OF_A_RECORD = (PROPERTIES_CRC, INNER_MULTI_QUEUE_OFFSET, INNER_NUM, INNER_BASE)
_WAITS_WITHIN = (*HALVES, SCHEDULE_TOPIC, TIMER_TOPIC)
_SYSTEM_PREFIXES = ("RMQ_SYS_", SYSTEM_PREFIX)


@dataclass(frozen=True, slots=True)
class Sending:
    """A message to send.

    key         identifies it in a ledger: topic, unique key and body
    origin      message id of its record
    queue       topic and queue of its record; --ordered keeps the order of each
    deliver_ms  the time at which it is due, 0 for at once
    """

    key: bytes
    origin: str
    uniq_key: str
    topic: str
    queue: tuple[str, int]
    body: bytes
    properties: Mapping[str, str]
    flag: int
    sys_flag: int
    born_timestamp_ms: int
    reconsume_times: int
    deliver_ms: int = 0


@dataclass(slots=True)
class Chooser:
    """The choice of messages to send from records, each once.

    topics     new names of topics, also for a dead-letter queue
    levels_ms  delays of the source's levels
    left_out   records that are not sent, by kind
    mapped     topics that got their new name
    """

    topics: Mapping[str, str] = field(default_factory=dict)
    levels_ms: Sequence[int] = ()
    halves: bool = False
    left_out: Counter[str] = field(default_factory=Counter)
    mapped: set[str] = field(default_factory=set)
    _last_half: dict[int, int] = field(default_factory=dict)
    _ended: set[int | str] = field(default_factory=set)

    def messages(self, records: Iterable[StoredMessage]) -> Iterator[Sending]:
        """Yield the messages to send; messages that wait within the broker come last."""
        copies = CopyFilter(halves=self.halves)
        copies.left_out = self.left_out
        for record in records:
            properties = record.properties
            if (kind := self._refused(record, properties)) is not None:
                self.left_out[kind] += 1
            elif copies.choose(record.as_put(), record.raw) is not None:
                yield self._sending(record, properties)
        for data in copies.waiting():
            record = decode_record(data)
            properties = record.properties
            if (kind := self._is_over(record, properties)) is not None:
                self.left_out[kind] += 1
            else:
                yield self._sending(record, properties)

    def _refused(self, record: StoredMessage, properties: Mapping[str, str]) -> str | None:
        """Return the kind of a record that is never sent; note the messages that it ends."""
        transaction = record.sys_flag & TRANSACTION_MASK
        if not record.is_crc_right:
            return "damaged"
        if decode_body(record.body, record.sys_flag).state is BodyState.STORED:
            return "unreadable"
        if not record.body and record.topic not in OPS:
            return "empty"
        if PLACEHOLDER in properties:
            return "placeholder"
        if record.topic in OPS:
            self._ended |= _ended_by(record, properties)
        elif record.topic in HALVES:
            self._last_half[identity_of(record.as_put(), dict(properties))] = record.queue_offset
        elif TIMER_DEL_UNIQKEY in properties:
            self._ended.add(properties[TIMER_DEL_UNIQKEY].rpartition("+")[2])
            return "recalled"
        elif transaction == TRANSACTION_ROLLBACK:
            return "rolled-back"
        elif transaction == TRANSACTION_PREPARED and not self.halves:
            return "half"
        elif waits_as(record.topic) is None and _is_system(record.topic):
            return "system"
        if record.topic in _WAITS_WITHIN and (self.halves or record.topic not in HALVES):
            return None if properties.get(REAL_TOPIC) else "system"
        return None

    def _is_over(self, record: StoredMessage, properties: Mapping[str, str]) -> str | None:
        """Return the kind of a waiting record that a later record ended; None if it still waits."""
        if record.topic in HALVES:
            last = self._last_half[identity_of(record.as_put(), dict(properties))]
            return "ended" if last in self._ended or properties.get(TRANSACTION_ID) in self._ended else None
        return "recalled" if record.topic == TIMER_TOPIC and properties.get(UNIQ_KEY) in self._ended else None

    def _sending(self, record: StoredMessage, properties: Mapping[str, str]) -> Sending:
        topic, queue_id, reconsumed, due_ms = record.topic, record.queue_id, record.reconsume_times, 0
        strips = (*_OF_A_RECORD, *OF_A_COPY) if is_copy(record.sys_flag, properties) else _OF_A_RECORD
        if topic in _WAITS_WITHIN:
            due_ms = self._due_ms(record, properties)
            topic = properties[REAL_TOPIC]
            queue_id = parse_whole_number(properties.get(REAL_QUEUE_ID, "")) or 0
        queue = (topic, queue_id)
        if topic in self.topics:
            self.mapped.add(topic)
            topic = self.topics[topic]
        elif topic.startswith(DLQ_PREFIX):
            topic = RETRY_PREFIX + topic.removeprefix(DLQ_PREFIX)
        if queue[0].startswith(DLQ_PREFIX):
            reconsumed = 0
        uniq_key = properties.get(UNIQ_KEY) or record.msg_id
        body, sys_flag = record.body, record.sys_flag & _KEPT_FLAGS
        if compression_of(sys_flag) not in (None, ZLIB):
            body, sys_flag = decode_body(body, sys_flag).data, sys_flag & ~(COMPRESSED | COMPRESSION_MASK)
        kept = {name: value for name, value in properties.items() if name not in strips} | {UNIQ_KEY: uniq_key}
        born_ms = record.born_timestamp_ms
        key = _key(topic, uniq_key, record.body_crc)
        return Sending(
            key, record.msg_id, uniq_key, topic, queue, body, kept, record.flag, sys_flag, born_ms, reconsumed, due_ms
        )

    def _due_ms(self, record: StoredMessage, properties: Mapping[str, str]) -> int:
        if record.topic == TIMER_TOPIC:
            return parse_whole_number(properties.get(TIMER_OUT_MS, "")) or 0
        level = min(delay_level(properties), len(self.levels_ms))
        is_delayed = record.topic == SCHEDULE_TOPIC and level > 0
        return record.store_timestamp_ms + self.levels_ms[level - 1] if is_delayed else 0


def _ended_by(record: StoredMessage, properties: Mapping[str, str]) -> set[int | str]:
    """Return the queue offsets of the half messages that a record ends; for 5.4, the transaction id."""
    if record.topic != OP_TOPIC:
        return {properties[TRANSACTION_ID]} if TRANSACTION_ID in properties else set()
    numbers = map(parse_whole_number, record.body.decode("ascii", "replace").split(","))
    return {number for number in numbers if number is not None}


def _is_system(topic: str) -> bool:
    return topic == "TBW102" or topic.startswith(_SYSTEM_PREFIXES) or topic_fault(topic) == "is the broker's own"


def _key(topic: str, uniq_key: str, body_crc: int) -> bytes:
    text = f"{topic}\0{uniq_key}\0{body_crc}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
