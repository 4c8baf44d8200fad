"""The outcome of a sent message by the broker's answer.

    0                        acknowledged
    10, 11, 12               acknowledged: the master has it; its disk, or a slave, was late
    13, 16, 17, 3, 26 …      refused, like all codes that are not listed here
    2, 14, 215, 1500         again: the broker is busy, starts or stops, is a slave, has a full disk, limits the flow
    1                        by its remark: again or refused if the broker had not written yet, else in doubt
    no answer                in doubt

Source: SendMessageProcessor.handlePutMessageResult, BrokerFastFailure, NettyRemotingAbstract (4.9.8, 5.5.0).
"""

from __future__ import annotations

from store.formats.remoting import (
    FLOW_CONTROL,
    FLUSH_DISK_TIMEOUT,
    FLUSH_SLAVE_TIMEOUT,
    GO_AWAY,
    SERVICE_NOT_AVAILABLE,
    SLAVE_NOT_AVAILABLE,
    SUCCESS,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
    Frame,
)
from store.verbs.replay.target import Answer, Outcome

_STORED = {
    SUCCESS: "",
    FLUSH_DISK_TIMEOUT: "the flush to disk is late",
    SLAVE_NOT_AVAILABLE: "no slave is there",
    FLUSH_SLAVE_TIMEOUT: "the slave is late",
}
_LATER = {SYSTEM_BUSY, SERVICE_NOT_AVAILABLE, FLOW_CONTROL, GO_AWAY}
_BEFORE_IT_WRITES = {
    "[PC_SYNCHRONIZED]": Outcome.AGAIN,
    "[PCBUSY_CLEAN_QUEUE]": Outcome.AGAIN,
    "[TIMEOUT_CLEAN_QUEUE]": Outcome.AGAIN,
    "[REJECTREQUEST]": Outcome.AGAIN,
    "create mapped file failed": Outcome.AGAIN,
    "in-sync replicas not enough": Outcome.AGAIN,
    "timer message is under flow control": Outcome.AGAIN,
    "request queueId[": Outcome.REFUSED,
}
"""Beginnings of the remark of code 1."""


def answer_of(frame: Frame | None, no_answer: str = "no answer") -> Answer:
    """Return the outcome of a message by its answer; `frame` is None without one."""
    if frame is None:
        return Answer(Outcome.DOUBT, no_answer)
    if frame.code in _STORED:
        offset = frame.fields.get("queueOffset", "")
        queue_offset = int(offset) if offset.isascii() and offset.isdigit() else -1
        return Answer(Outcome.ACKNOWLEDGED, _STORED[frame.code], frame.fields.get("msgId", ""), queue_offset)
    # Java's remark may be a stack trace.
    reason = f"code {frame.code}: {frame.remark.split(chr(10))[0]}"[:200]
    if frame.code in _LATER:
        return Answer(Outcome.AGAIN, reason)
    if frame.code == SYSTEM_ERROR:
        found = (outcome for begin, outcome in _BEFORE_IT_WRITES.items() if frame.remark.startswith(begin))
        return Answer(next(found, Outcome.DOUBT), reason)
    return Answer(Outcome.REFUSED, reason)
