"""Chooses the lines that `put --input --as-new` puts, so that each message is put once.

A store holds more records than its producers sent. What a broker wrote by itself is left out and counted:

    half        half messages: one that was committed has a record of its own in its topic
    op          the marks of ended transactions
    discarded   half messages that were checked too often
    delayed     a message that waits for its time, where its delivered copy is among the lines
    retried     copies for consumers that failed (%RETRY%, %DLQ%), where the message itself is among the lines

A message and its copies have one identity: the unique key of its producer, else what the producer said of it. The copy
may be on a later line, so lines that wait are put last, where no other line has their identity.
"""

from __future__ import annotations

import hashlib
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import IO

from store import Message
from store.formats import (
    DISCARD_TOPIC,
    DLQ_PREFIX,
    HALF_TOPIC,
    OP_TOPIC,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    decode_properties,
    encode_properties,
)
from store.layout import parse_whole_number

_NEVER_SENT = {HALF_TOPIC: "half", OP_TOPIC: "op", DISCARD_TOPIC: "discarded"}
_COMMIT_BITS = 0xC
_OF_A_COPY = (
    "DELAY", "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "TRANSACTION_CHECK_TIMES", "TIMER_DELAY_SEC", "TIMER_DELAY_MS",
    "TIMER_DELIVER_MS", "TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES",
)  # fmt: skip
"""Properties that a broker gave to a delivered or committed message, and the delay that is over."""
_IN_MEMORY = 32 << 20


class CopyFilter:
    """Tells a message from the copies that a broker made of it."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        self._seen = array("Q")
        self._waiting_ids: list[int] = []
        self._waiting_lines: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 # lives as long as the filter

    def choose(self, message: Message, line: bytes) -> Message | None:
        """The message as its producer sent it; None where it is left out, or waits for the other lines."""
        kind = _NEVER_SENT.get(message.topic)
        if kind is not None:
            self.left_out[kind] += 1
            return None
        properties = decode_properties(message.properties)
        identity = _identity(message, properties)
        is_retried = message.topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        if is_retried or message.topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
            self._waiting_ids.append(identity)
            self._waiting_lines.write(line.rstrip(b"\n") + b"\n")
            return None
        self._seen.append(identity)
        if REAL_TOPIC not in properties:
            return message
        kept = {name: value for name, value in properties.items() if name not in _OF_A_COPY}
        sys_flag = message.sys_flag & ~_COMMIT_BITS
        return replace(message, properties=encode_properties(kept), sys_flag=sys_flag, prepared_transaction_offset=0)

    def waiting(self) -> Iterator[bytes]:
        """The waiting lines of messages that no other line has."""
        there = set(self._waiting_ids).intersection(self._seen)
        self._waiting_lines.seek(0)
        for identity, line in zip(self._waiting_ids, self._waiting_lines, strict=True):
            if identity not in there:
                there.add(identity)
                yield line
            elif b'"%RETRY%' in line or b'"%DLQ%' in line:
                self.left_out["retried"] += 1
            else:
                self.left_out["delayed"] += 1


def _identity(message: Message, properties: dict[str, str]) -> int:
    if said := properties.get("UNIQ_KEY"):
        return int.from_bytes(hashlib.blake2b(said.encode(), digest_size=8).digest(), "big")
    topic = properties.get("RETRY_TOPIC") or properties.get("REAL_TOPIC") or message.topic
    born = f"{topic}\0{message.born_timestamp_ms}\0{message.born_host.port}\0{message.flag}\0"
    found = hashlib.blake2b(born.encode() + message.born_host.address, digest_size=8)
    found.update(message.body)
    return int.from_bytes(found.digest(), "big")


def at_real_place(message: Message) -> Message:
    """A message that waits in a topic of the broker's own, as its producer sent it."""
    if message.topic not in (SCHEDULE_TOPIC, HALF_TOPIC):
        return message
    found = decode_properties(message.properties)
    topic, queue_id = found.pop(REAL_TOPIC, ""), parse_whole_number(found.pop(REAL_QUEUE_ID, ""))
    if not topic or queue_id is None:
        return message
    return replace(message, topic=topic, queue_id=queue_id, properties=encode_properties(found))
