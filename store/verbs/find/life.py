"""The life of a message: all records with its unique key, in the order of time, each with its role.

    topic                          the record is
    SCHEDULE_TOPIC_XXXX            delayed
    rmq_sys_wheel_timer            timed
    RMQ_SYS_TRANS_HALF_TOPIC       half; also the copies that a check puts back
    TRANS_CHECK_MAX_TIME_TOPIC     given up
    %RETRY%group                   retry of a group
    %DLQ%group                     dead letter of a group
    else, with flag commit         committed
    else, with flag rollback       rolled back
    else, with flag prepared       prepared
    else, with DELAY or TIMER_*    delivered, if a delayed record came before it
    else                           sent

Source: ScheduleMessageService, TransactionalMessageServiceImpl, SendMessageProcessor.consumerSendMsgBack (4.9.8),
TimerMessageStore (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from store.formats.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    StoredMessage,
)
from store.formats.topics import DISCARD_TOPIC, DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC

_BY_TOPIC = {SCHEDULE_TOPIC: "delayed", TIMER_TOPIC: "timed", HALF_TOPIC: "half", DISCARD_TOPIC: "given up"}
_BY_FLAG = {TRANSACTION_COMMIT: "committed", TRANSACTION_ROLLBACK: "rolled back", TRANSACTION_PREPARED: "prepared"}
_WAITING = ("delayed", "timed")


@dataclass(frozen=True, slots=True)
class Stage:
    """One record in the life of a message, with its role."""

    role: str
    message: StoredMessage


def life_of(records: Iterable[StoredMessage]) -> list[Stage]:
    """Return the stages of one message, by store time and log offset."""
    stages: list[Stage] = []
    for record in sorted(records, key=lambda one: (one.store_timestamp_ms, one.log_offset)):
        role = role_of(record)
        if role == "sent" and any(stage.role in _WAITING for stage in stages):
            role = "delivered"
        stages.append(Stage(role, record))
    return stages


def role_of(message: StoredMessage) -> str:
    """Return the role of one record, without regard to the others."""
    if message.topic in _BY_TOPIC:
        return _BY_TOPIC[message.topic]
    for prefix, role in ((RETRY_PREFIX, "retry"), (DLQ_PREFIX, "dead letter")):
        if message.topic.startswith(prefix):
            return role
    return _BY_FLAG.get(message.sys_flag & TRANSACTION_MASK, "sent")
