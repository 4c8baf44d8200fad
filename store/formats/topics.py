"""Topics that brokers make for themselves.

Source: TopicValidator, MixAll, TransactionalMessageUtil (4.9.8); TimerMessageStore (5.3.3).
"""

from __future__ import annotations

import re

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
DISCARD_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Half messages that were checked too often."""
TIMER_TOPIC = "rmq_sys_wheel_timer"
ROCKSDB_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
"""Of 5.4 on; no older broker has a use for them."""
HALF_TOPICS, OP_TOPICS = (HALF_TOPIC, ROCKSDB_HALF_TOPIC), (OP_TOPIC, ROCKSDB_OP_TOPIC)
OPEN_IN_DATABASE = ROCKSDB_HALF_TOPIC
"""Of its half messages only a database tells which are open."""
RETRY_PREFIX, DLQ_PREFIX = "%RETRY%", "%DLQ%"
LMQ_PREFIX = "%LMQ%"

MAX_SENT_LENGTH = 127
_SENT = re.compile(r"[%|a-zA-Z0-9_-]+")
_NOT_SENT = {
    *(SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC, DISCARD_TOPIC, "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"),
    *(ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC),
}


def shares_records(topic: str) -> bool:
    """Return whether the queues of a topic have units of other topics' records alone."""
    return topic.startswith(LMQ_PREFIX)


def topic_fault(topic: str) -> str:
    """Say why a broker refuses a message that a producer sends to the topic; empty where it takes it.

    Source: TopicValidator (4.9.8, 5.3.3, 5.5.0); 5.x alone takes longer retry topics.
    """
    if not _SENT.fullmatch(topic):
        return "has characters other than ASCII letters, digits and % | _ -"
    if len(topic) > MAX_SENT_LENGTH and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return f"has {len(topic)} characters, and {MAX_SENT_LENGTH} is the limit"
    return "is the broker's own" if topic in _NOT_SENT else ""
