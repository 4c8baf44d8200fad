"""MultiDispatch: give a message its queue offsets in light message queues (LMQ), as properties.

    INNER_MULTI_DISPATCH        %LMQ%a,%LMQ%b     given
    INNER_MULTI_QUEUE_OFFSET    17,4              written under the put lock; each counter rises by one

    4.9    with enableMultiDispatch; any name gets an offset, in the message's queue id unless it is a light queue
    5.3    with enableLmq; not in %RETRY%, rmq_sys_ and schedule topics; only %LMQ% names get an offset, in queue 0

A 5.3 broker accepts a message with another name, and then dispatches it to no light queue or stops there. Here such a
message is refused. The properties are written again in the order of a Java HashMap. The whole record may have at
most maxMessageSize bytes.

Source: LmqDispatch.wrapLmqDispatch, MixAll.topicAllowsLMQ (5.3.3), MultiDispatch.wrapMultiDispatch (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from store.broker_line import BrokerLine
from store.config import StoreConfig
from store.formats import properties as props
from store.formats.message import Message, host_flags, record_size
from store.formats.topics import LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_PREFIX
from store.structures.commitlog.put_result import PutResult, illegal

LIGHT_MARK = props.INNER_MULTI_DISPATCH.encode()
QueueKey = tuple[str, int]
Append = Callable[[Message], PutResult]


class MultiDispatch:
    """The rules of one store."""

    def __init__(self, config: StoreConfig, line: BrokerLine) -> None:
        self._is_5_3, self._enable_lmq = line.accepts_v2, config.enable_lmq
        self._max_record = config.max_message_size
        self.is_on = config.enable_lmq if self._is_5_3 else config.enable_multi_dispatch

    def names_of(self, message: Message) -> list[str]:
        """Return the names in a message's INNER_MULTI_DISPATCH; empty where no light queue is allowed."""
        if not self.is_on or LIGHT_MARK not in message.properties or message.topic.startswith(RETRY_PREFIX):
            return []
        if self._is_5_3 and (message.topic == SCHEDULE_TOPIC or message.topic.startswith(SYSTEM_PREFIX)):
            return []
        text = props.decode_properties(message.properties).get(props.INNER_MULTI_DISPATCH, "")
        names = text.split(",") if text.strip() else []
        while names and not names[-1]:
            names.pop()
        return names

    def put(
        self, message: Message, names: list[str], next_offset: Callable[[QueueKey], int], append: Append
    ) -> PutResult:
        """Append a message with its queue offsets; the caller holds the put lock and raises the counters."""
        wrong = [name for name in names if self._is_5_3 and not name.startswith(LMQ_PREFIX)]
        if wrong:
            return illegal(
                f"{props.INNER_MULTI_DISPATCH} names {wrong[0]!r}, which does not begin with {LMQ_PREFIX}: "
                "a 5.3 broker would dispatch the message to no light message queue, or not start again"
            )
        offsets = ",".join(str(next_offset(key)) for key in self.queues_of(message, names))
        values = {**props.decode_properties(message.properties), props.INNER_MULTI_QUEUE_OFFSET: offsets}
        properties = props.encode_java_map(values, ends_with_separator=self._is_5_3)
        message = replace(message, properties=properties)
        flags = host_flags(message.born_host, message.store_host)
        size = record_size(len(message.body), len(message.topic.encode()), len(properties), flags)
        if size > self._max_record:
            return illegal(f"the record would have {size} bytes, with light queues the limit is {self._max_record}")
        return append(message)

    def queues_of(self, message: Message, names: list[str]) -> list[QueueKey]:
        """Return the queue of each name."""
        return [(name, 0 if self._enable_lmq and name.startswith(LMQ_PREFIX) else message.queue_id) for name in names]
