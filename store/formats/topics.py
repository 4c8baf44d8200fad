"""Topics that brokers make for themselves.

Source: TopicValidator, MixAll, TransactionalMessageUtil (4.9.8); TimerMessageStore (5.3.3).
"""

from __future__ import annotations

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
DISCARD_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Half messages that were checked too often."""
TIMER_TOPIC = "rmq_sys_wheel_timer"
RETRY_PREFIX, DLQ_PREFIX = "%RETRY%", "%DLQ%"
LMQ_PREFIX = "%LMQ%"
