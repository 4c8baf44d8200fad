"""PutRules: the messages that a store accepts, and the stored form of a delayed message.

Two rules are stricter than 4.9.8's, as that broker would write a log that it cannot read again: topics of more than 127
bytes (not characters) and records larger than a segment are refused. Compatibility 5.3 allows longer topics, in records
of version 2.

Source: CommitLog.asyncPutMessage, asyncPutMessages, MessageExtEncoder.encode (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from store.broker_line import LINE_4_9, BrokerLine
from store.config import StoreConfig
from store.errors import BadRequest
from store.formats import properties as props
from store.formats.given import check_property
from store.formats.host import port_fault
from store.formats.java import parse_int, utf16_length
from store.formats.message import (
    BLANK_SIZE,
    MAX_TOPIC_SIZE_V1,
    TRANSACTION_MASK,
    Message,
    host_flags,
    record_size,
    waiting_level,
)
from store.formats.property_crc import without_crc
from store.formats.topics import SCHEDULE_TOPIC
from store.layout import is_topic_folder_name
from store.structures.commitlog.bulk import MessageColumns
from store.structures.commitlog.put_result import PutResult, PutStatus, illegal

MAX_TOPIC_LENGTH = 127
MAX_FOLDER_NAME_SIZE = 255

_SENT_EXTRA_SIZE = 4 + 4 + 4 + 4 + 4 + 2
"""Bytes of the numbers before body and properties of each message in a sent batch (MessageDecoder)."""


class PutRules:
    """The limits of one store: `max_body` and `max_record` in bytes.

    before_delay  raises BadRequest before the first delayed message of a store whose delays are not known
    """

    def __init__(
        self,
        config: StoreConfig,
        segment_size: int,
        line: BrokerLine = LINE_4_9,
        before_delay: Callable[[], object] | None = None,
    ) -> None:
        self.line = line
        self.appends_crc = config.enabled_append_prop_crc and line.accepts_v2
        """Whether a record ends with a CRC of all its other bytes."""
        self.max_body = config.max_message_size
        self.max_record = segment_size - BLANK_SIZE
        self._level_count = len(config.delay_levels_ms)
        self._before_delay = before_delay

    def refuse_batch(self, messages: Sequence[Message], *, is_batch: bool = True) -> PutResult | None:
        """Return the refusal of a batch, None if it is accepted.

        Source: CommitLog.asyncPutMessages, MessageExtEncoder.encode for batches.
        """
        if not messages:
            return illegal("the batch is empty")
        first = messages[0]
        topic = first.topic.encode()
        refused = self.refuse_topic(first.topic, topic)
        if refused:
            return illegal(refused)
        if first.queue_id < 0:
            return illegal(f"the queue id is negative: {first.queue_id}")
        sent = sum(_SENT_EXTRA_SIZE + len(message.body) + len(message.properties) for message in messages)
        if is_batch and sent > self.max_body:
            return illegal(f"the batch is sent as {sent} bytes, maxMessageSize is {self.max_body}")
        for message in messages:
            if (message.topic, message.queue_id) != (first.topic, first.queue_id):
                return illegal("all messages of a batch need the same topic and queue")
            if is_batch and message.sys_flag & TRANSACTION_MASK:
                return illegal("a batch cannot be part of a transaction")
            if is_batch and props.DELAY in props.decode_properties(message.properties):
                return illegal("a batch cannot be delayed")
            if fault := port_fault(message.born_host, message.store_host):
                return illegal(fault)
            size = record_size(len(message.body), len(topic), len(message.properties))
            if len(message.body) > self.max_body or size > self.max_record:
                return self.too_large(message, size)
            if len(message.properties) > props.MAX_PROPERTIES_SIZE:
                return self.too_large(message, size)
        return None

    def refuse_rows(self, messages: MessageColumns, *, as_stored: bool = False) -> npt.NDArray[np.bool_]:
        """Mark the rows that a put would refuse; putting such a row alone returns the reason."""
        topics = [topic.encode() for topic in messages.topics]
        bad = [bool(self.refuse_topic(*both)) for both in zip(messages.topics, topics, strict=True)]
        sizes = np.array([len(topic) for topic in topics], np.int64)[messages.topic_of]
        bodies, properties = np.diff(messages.body_ends), np.diff(messages.property_ends)
        pairs, pair_of = messages.host_pairs()
        fixed = np.array([record_size(0, 0, 0, host_flags(*pair)) for pair in pairs], np.int64)[pair_of]
        total = fixed + bodies + sizes + properties
        too_large = (bodies > self.max_body) | (total > self.max_record) | (properties > props.MAX_PROPERTIES_SIZE)
        too_large |= messages.numbers["queue_id"] < 0
        refused: npt.NDArray[np.bool_] = np.array(bad, bool)[messages.topic_of] | too_large
        if not as_stored:
            refused |= np.array([bool(port_fault(*pair)) for pair in pairs], bool)[pair_of]
        return refused

    def refuse_place(self, topic: str, queue_id: int) -> str:
        """Return why this queue can't take messages, empty if it can."""
        if queue_id < 0:
            return f"the queue id is negative: {queue_id}"
        return self.refuse_topic(topic, topic.encode())

    def refuse_topic(self, topic: str, encoded: bytes) -> str:
        """Return why this topic can't take messages, empty if it can.

        A broker builds the queue's folder from the topic: one with a slash would lie outside consumequeue/.
        """
        most = MAX_FOLDER_NAME_SIZE if self.line.accepts_v2 else MAX_TOPIC_SIZE_V1
        if not encoded or len(encoded) > most or (utf16_length(topic) > MAX_TOPIC_LENGTH and most == MAX_TOPIC_SIZE_V1):
            fits_v2 = 0 < len(encoded) <= MAX_FOLDER_NAME_SIZE
            of_line = " in a 4.x store" if fits_v2 and not self.line.accepts_v2 else ""
            return f"the topic must have 1 to {most} bytes of UTF-8{of_line}"
        return "" if is_topic_folder_name(topic) else f"no folder can have the topic's name: {topic!r}"

    def as_stored(self, properties: bytes) -> bytes:
        """Return the property string as a broker of this compatibility stores it."""
        if self.appends_crc:
            properties = without_crc(properties)
        if self.line.ends_with_separator and properties and not properties.endswith(props.PROPERTY_SEPARATOR_BYTE):
            return properties + props.PROPERTY_SEPARATOR_BYTE
        return properties

    def too_large(self, message: Message, size: int) -> PutResult:
        """Return the refusal with the limit that a message exceeds; its record would have `size` bytes."""
        if len(message.properties) > props.MAX_PROPERTIES_SIZE:
            reason = f"the properties have {len(message.properties)} bytes, the limit is {props.MAX_PROPERTIES_SIZE}"
            too_long = utf16_length(message.properties.decode("utf-8", "replace")) > props.MAX_PROPERTIES_SIZE
            status = PutStatus.MESSAGE_ILLEGAL if too_long else PutStatus.PROPERTIES_SIZE_EXCEEDED
            return PutResult(status, reason=reason)
        if len(message.body) > self.max_body:
            return illegal(f"the body has {len(message.body)} bytes, maxMessageSize is {self.max_body}")
        return illegal(f"the record would have {size} bytes, the limit is {self.max_record}")

    def refuse_delayed(self, message: Message) -> str:
        """Return why a delayed message can't wait, empty if it can; empty for other messages.

        A broker puts no message whose DELAY is no number (Message.getDelayTimeLevel, 4.9.8).
        """
        level = props.decode_properties(message.properties).get(props.DELAY)
        if level is not None and parse_int(level) is None:
            return f"the property DELAY is not a number: {level[:40]!r}"
        if waiting_level(message, self._level_count) <= 0:
            return ""
        try:
            check_property("the topic of a delayed message", message.topic)
            if self._before_delay is not None:
                self._before_delay()
        except BadRequest as error:
            return error.reason
        self._before_delay = None
        return ""

    def delayed(self, message: Message) -> Message:
        """Return a delayed message in its waiting form; other messages unchanged.

        The waiting form has the schedule topic, and the real topic and queue id in two properties.
        """
        level = waiting_level(message, self._level_count)
        if level <= 0:
            return message
        properties = props.decode_properties(message.properties)
        properties[props.DELAY] = str(level)
        properties[props.REAL_TOPIC] = message.topic
        properties[props.REAL_QUEUE_ID] = str(message.queue_id)
        return Message(
            SCHEDULE_TOPIC,
            message.body,
            level - 1,
            props.encode_java_map(properties, ends_with_separator=self.line.ends_with_separator),
            message.flag,
            message.sys_flag,
            message.born_timestamp_ms,
            message.born_host,
            message.store_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
        )
