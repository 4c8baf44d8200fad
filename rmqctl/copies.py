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
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from store import Message

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
        from store.formats import (
            DISCARD_TOPIC,
            DLQ_PREFIX,
            HALF_TOPIC,
            OP_TOPIC,
            REAL_TOPIC,
            RETRY_PREFIX,
            SCHEDULE_TOPIC,
            TIMER_TOPIC,
            decode_properties,
            encode_properties,
        )

        kind = {HALF_TOPIC: "half", OP_TOPIC: "op", DISCARD_TOPIC: "discarded"}.get(message.topic)
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
    said: object = properties.get("UNIQ_KEY")
    if not said:
        topic = properties.get("RETRY_TOPIC") or properties.get("REAL_TOPIC") or message.topic
        said = (topic, message.born_timestamp_ms, str(message.born_host), message.flag, message.body)
    return int.from_bytes(hashlib.blake2b(repr(said).encode(), digest_size=8).digest(), "big")
