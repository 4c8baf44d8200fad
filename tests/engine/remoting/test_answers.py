"""Each answer of a broker is one of four outcomes."""

from __future__ import annotations

import pytest

from store.engine.remoting.answers import answer_of
from store.formats.remoting import Frame
from store.verbs.replay.target import Answer, Outcome

STORED = {"msgId": "7F00", "queueOffset": "41"}


@pytest.mark.parametrize(
    ("code", "reason"),
    [(0, ""), (10, "the flush to disk is late"), (11, "no slave is there"), (12, "the slave is late")],
)
def test_a_message_on_the_master_is_acknowledged(code: int, reason: str) -> None:
    assert answer_of(Frame(code, 1, STORED)) == Answer(Outcome.ACKNOWLEDGED, reason, "7F00", 41)


@pytest.mark.parametrize(
    ("code", "remark", "outcome"),
    [
        (1, "[PC_SYNCHRONIZED]broker busy, start flow control for a while", Outcome.AGAIN),
        (1, "create mapped file failed, server is busy or broken.", Outcome.AGAIN),
        (1, "in-sync replicas not enough", Outcome.AGAIN),
        (1, "timer message is under flow control, max num limit is 5", Outcome.AGAIN),
        (1, "request queueId[77] is illegal", Outcome.REFUSED),
        (1, "UNKNOWN_ERROR", Outcome.DOUBT),
        (1, "", Outcome.DOUBT),
        (2, "[TIMEOUT_CLEAN_QUEUE]broker busy", Outcome.AGAIN),
        (3, "not supported", Outcome.REFUSED),
        (13, "the message is illegal", Outcome.REFUSED),
        (14, "service not available now. It may be caused by one of the following reasons", Outcome.AGAIN),
        (16, "no permission", Outcome.REFUSED),
        (17, "topic[Nope] not exist", Outcome.REFUSED),
        (26, "subscription group not exist", Outcome.REFUSED),
        (215, "flow control", Outcome.AGAIN),
        (1500, "go away", Outcome.AGAIN),
    ],
)
def test_another_code_is(code: int, remark: str, outcome: Outcome) -> None:
    assert answer_of(Frame(code, 1, {}, remark=remark)) == Answer(outcome, f"code {code}: {remark}")


def test_no_answer_is_a_doubt() -> None:
    assert answer_of(None, "closed") == Answer(Outcome.DOUBT, "closed")


def test_of_a_stack_trace_the_first_line_is_kept() -> None:
    assert answer_of(Frame(1, 1, {}, remark="java.lang.Error\n\tat A.b")).reason == "code 1: java.lang.Error"
