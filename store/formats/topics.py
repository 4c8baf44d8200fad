"""Topics that brokers create for themselves.

Source: TopicValidator, MixAll, TransactionalMessageUtil (4.9.8); TimerMessageStore (5.3.3).
"""

from __future__ import annotations

import re

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
DISCARD_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Half messages after their last check."""
SYSTEM_PREFIX = "rmq_sys_"
"""The prefix of topics of a 5.x broker's services."""
TIMER_TOPIC, REVIVE_PREFIX = f"{SYSTEM_PREFIX}wheel_timer", f"{SYSTEM_PREFIX}REVIVE_LOG_"
ROCKSDB_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
"""From 5.4 on; older brokers do not use them."""
HALF_TOPICS, OP_TOPICS = (HALF_TOPIC, ROCKSDB_HALF_TOPIC), (OP_TOPIC, ROCKSDB_OP_TOPIC)
OPEN_IN_DATABASE = ROCKSDB_HALF_TOPIC
"""Only a database shows the open half messages of this topic."""
RETRY_PREFIX, DLQ_PREFIX = "%RETRY%", "%DLQ%"
LMQ_PREFIX = "%LMQ%"
LIGHT_PLACEHOLDERS = f"{LMQ_PREFIX}RMQCTL_LOST"

MAX_SENT_LENGTH = 127
_SENT = re.compile(r"[%|a-zA-Z0-9_-]+")
BROKERS_OWN = {
    *(SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC, DISCARD_TOPIC, "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"),
    *(ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC),
}


def shares_records(topic: str) -> bool:
    """Return whether the queues of a topic have only units of other topics' records."""
    return topic.startswith(LMQ_PREFIX)


def topic_fault(topic: str) -> str:
    """Return why a broker refuses a producer's message to the topic; empty if it accepts it.

    Source: TopicValidator (4.9.8, 5.3.3, 5.5.0); only 5.x accepts longer retry topics.
    """
    if not topic:
        return "is empty"
    if not _SENT.fullmatch(topic):
        return "has characters other than ASCII letters, digits and % | _ -"
    if len(topic) > MAX_SENT_LENGTH and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return f"has {len(topic)} characters, and {MAX_SENT_LENGTH} is the limit"
    return "is the broker's own" if topic in BROKERS_OWN else ""
