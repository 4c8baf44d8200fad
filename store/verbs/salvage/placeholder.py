"""Write and find records that take the queue offsets of lost messages in a salvaged store.

A placeholder has the property RMQCTL_LOST and a body of one zero byte: a 4.9 client decodes an empty body as null,
throws, and drops every message that came with it. A broker's own services skip a placeholder in their topics:

    SCHEDULE_TOPIC_XXXX          the half topic is never delivered to; without a REAL_QID a 4.9 level stops
    RMQ_SYS_TRANS_HALF_TOPIC     born in 1970, so discarded: a copy goes to TRANS_CHECK_MAX_TIME_TOPIC, no check is sent
    RMQ_SYS_TRANS_OP_HALF_TOPIC  with tag d the check group's offset passes; a body that is no number resolves no half
    rmq_sys_wheel_timer          a delete of no message, due when stored; the service stops without TIMER_OUT_MS
    rmq_sys_REVIVE_LOG_*         without a tag neither a checkpoint nor an acknowledgement of pop consumers
    %RETRY%GROUP                 a broker with filterSupportRetry throws without a RETRY_TOPIC

In a light message queue an entry points to a record of another topic. So a placeholder lists light queues as a
message does. It is the one of the record's own queue, or one of LIGHT_TOPIC, which no consumer and no service reads.

In a batch queue one placeholder takes all offsets of a gap by INNER_BASE and INNER_NUM. Without the flags of an inner
batch a client takes it as one message.

No service reads %DLQ%GROUP, TRANS_CHECK_MAX_TIME_TOPIC and OFFSET_MOVED_EVENT. Consumer offsets are in no topic.

Source: ProcessQueue.putMessage, ScheduleMessageService.executeOnTimeup, TransactionalMessageServiceImpl.check and
fillOpRemoveMap, ExpressionForRetryMessageFilter (4.9.8, 5.5.0); TimerMessageStore.enqueue,
PopReviveService.consumeReviveMessage (5.5.0); CommitLog.setBatchSizeIfNeeded, PullAPIWrapper.processPullResult (5.3.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from store.files.store_reader import StoreReader
from store.formats.inner_batch import inner_batch_of
from store.formats.message import Message, encode_record
from store.formats.properties import (
    DELAY,
    INNER_BASE,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    INNER_NUM,
    NAME_VALUE_SEPARATOR,
    PLACEHOLDER,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_OUT_MS,
    encode_properties,
)
from store.formats.run import Stretch
from store.formats.topics import (
    BROKERS_OWN,
    DISCARD_TOPIC,
    HALF_TOPIC,
    LIGHT_PLACEHOLDERS,
    OP_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIX,
    TIMER_TOPIC,
)
from store.setting_values import MAX_LONG
from store.verbs.find.scan import scan_log, with_any_of

BODY = b"\0"
_RETRY_TOPIC = "RETRY_TOPIC"


def light_topic(earlier: int) -> bytes:
    """Return the topic after those of earlier salvages, whose placeholders are records of the old store."""
    return f"{LIGHT_PLACEHOLDERS}{earlier:03d}".encode()


MOST_LIGHT = 100
"""Names of 255 bytes and their offsets fit into 32767 bytes of properties."""
SKIPPED = "skip"
"""The property's value if a restore skipped the queue offset, and no message is lost."""

LIGHT_TOPIC = light_topic(0)
"""The topic of placeholders in light queues alone; brokers need no entry of topics.json for a topic of this prefix."""


class Placeholder(NamedTuple):
    """The lost record of a queue; `light` has the names and queue offsets of its light queues.

    offset_count  the queue offsets that it takes; more than 1 only in a batch queue
    """

    topic: bytes
    queue_id: int
    queue_offset: int
    light: tuple[tuple[bytes, int], ...] = ()
    offset_count: int = 1

    @property
    def takes_light(self) -> bool:
        """Whether a broker dispatches the record to one more light queue, and copies it nowhere."""
        topic = self.topic.decode("utf-8", "surrogateescape")
        is_refused = topic in BROKERS_OWN or topic.startswith((RETRY_PREFIX, SYSTEM_PREFIX))
        return not is_refused and len(self.light) < MOST_LIGHT and self.offset_count == 1


def encode_placeholder(
    placeholder: Placeholder, log_offset: int, time_ms: int, padding: int = 0, kind: str = "true"
) -> bytes:
    """Encode the record of a placeholder. `padding` is added to its body; `kind` is the property's value."""
    name, queue_id, queue_offset, light, count = placeholder
    topic = name.decode("utf-8", "surrogateescape")
    values = {PLACEHOLDER: kind, **_shape(topic, queue_id, time_ms)}
    if light:
        values[INNER_MULTI_DISPATCH] = ",".join(one.decode("utf-8", "surrogateescape") for one, _ in light)
        values[INNER_MULTI_QUEUE_OFFSET] = ",".join(str(offset) for _, offset in light)
    if count > 1:
        values |= {INNER_BASE: str(queue_offset), INNER_NUM: str(count)}
    properties = encode_properties(values, "surrogateescape")
    return encode_record(
        Message(topic, BODY + bytes(padding), queue_id, properties, born_timestamp_ms=0),
        topic=name,
        sys_flag=0,
        queue_offset=queue_offset,
        log_offset=log_offset,
        store_timestamp_ms=time_ms,
    )


def _shape(topic: str, queue_id: int, time_ms: int) -> Mapping[str, str]:
    """Return the properties that make the reader of a topic skip the record."""
    if topic == SCHEDULE_TOPIC:
        return {DELAY: str(queue_id + 1), REAL_TOPIC: HALF_TOPIC, REAL_QUEUE_ID: "0"}
    if topic == OP_TOPIC:
        return {TAGS: "d"}
    if topic == TIMER_TOPIC:
        # A fixed width, so that a placeholder's size is known before its time.
        return {TIMER_OUT_MS: f"{time_ms:013d}", TIMER_DEL_UNIQKEY: PLACEHOLDER, REAL_QUEUE_ID: "0"}
    return {_RETRY_TOPIC: topic} if topic.startswith(RETRY_PREFIX) else {}


def find_placeholders(reader: StoreReader) -> dict[tuple[str, int, bool], tuple[int, int]]:
    """Find the least queue offset of each queue's placeholders, and how many they take, also past damage.

    Those of skipped offsets are apart.
    """
    found: dict[tuple[str, int, bool], tuple[int, int]] = {}
    choose = with_any_of([(PLACEHOLDER + NAME_VALUE_SEPARATOR).encode()])
    for message in scan_log(reader, [Stretch(0, MAX_LONG)], choose):
        if PLACEHOLDER in message.properties and message.topic != DISCARD_TOPIC:
            is_skipped = message.properties[PLACEHOLDER] == SKIPPED
            key = message.topic, message.queue_id, is_skipped
            first, count = inner_batch_of(message.properties) or (message.queue_offset, 1)
            least, total = found.get(key, (first, 0))
            found[key] = min(least, first), total + max(count, 1)
    return found
