"""Read messages of a live broker by queue and store time.

The index may lack them: a broker that truncated its log after a crash indexes no message below the index's former end.
"""

from __future__ import annotations

from collections.abc import Iterator

from store.engine.remoting.connection import Connection
from store.errors import BadRequest
from store.formats.message import StoredMessage, decode_record
from store.formats.remoting import (
    PULL_MESSAGE,
    PULL_NOT_FOUND,
    PULL_OFFSET_MOVED,
    PULL_RETRY_IMMEDIATELY,
    SEARCH_OFFSET_BY_TIMESTAMP,
    SUCCESS,
    TOPIC_NOT_EXIST,
    Frame,
)

_GROUP = "TOOLS_CONSUMER"
"""A group that every broker has (SubscriptionGroupManager), so that a pull creates no group."""
_WITH_SUBSCRIPTION = 0x4
"""PullSysFlag: the request has the subscription, as the group has no consumer."""
_AT_ONCE = 32
_NO_QUEUE = "queueId["
"""The beginning of the remark on a queue that the topic lacks."""


def messages_between(
    broker: Connection, topic: str, queue_id: int, first_ms: int, last_ms: int
) -> Iterator[StoredMessage]:
    """Yield the messages of a queue that were stored from `first_ms` to `last_ms`.

    Yield nothing for an unknown topic or queue. LinkLost; BadRequest if the broker refuses.
    """
    queue = {"topic": topic, "queueId": str(queue_id)}
    answer = broker.ask(SEARCH_OFFSET_BY_TIMESTAMP, {**queue, "timestamp": str(first_ms)})
    if answer.code != SUCCESS:
        raise _refusal(answer)
    offset = max(int(answer.fields.get("offset", "0")), 0)
    while True:
        answer = broker.ask(PULL_MESSAGE, {**queue, **_PULL, "queueOffset": str(offset)})
        if answer.code in (PULL_NOT_FOUND, TOPIC_NOT_EXIST) or answer.remark.startswith(_NO_QUEUE):
            return
        if answer.code not in (SUCCESS, PULL_RETRY_IMMEDIATELY, PULL_OFFSET_MOVED):
            raise _refusal(answer)
        for message in records_in(answer.body):
            if message.store_timestamp_ms > last_ms:
                return
            yield message
        after = int(answer.fields.get("nextBeginOffset", "0"))
        if after <= offset:
            return
        offset = after


def records_in(body: bytes) -> list[StoredMessage]:
    """Return the records of an answer, one after the other."""
    records, at = [], 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        records.append(decode_record(body[at : at + size], position=at))
        at += size
    return records


def _refusal(answer: Frame) -> BadRequest:
    return BadRequest(f"the broker does not search: code {answer.code}: {answer.remark[:200]}")


_PULL = {
    "consumerGroup": _GROUP,
    "maxMsgNums": str(_AT_ONCE),
    "sysFlag": str(_WITH_SUBSCRIPTION),
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subscription": "*",
    "subVersion": "0",
    "expressionType": "TAG",
}
