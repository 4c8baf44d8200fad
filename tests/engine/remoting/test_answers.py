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


@pytest.mark.parametrize(
    ("offset", "found"), [("41", 41), ("0", 0), ("", -1), ("x", -1), ("-1", -1), ("٤١", -1), ("4١", -1)]
)
def test_a_queue_offset_is_of_plain_digits(offset: str, found: int) -> None:
    assert answer_of(Frame(0, 1, {"queueOffset": offset})) == Answer(Outcome.ACKNOWLEDGED, "", "", found)
    assert answer_of(Frame(0, 1, {})).queue_offset == -1


def test_a_reason_has_two_hundred_characters_at_most() -> None:
    reasons = [answer_of(Frame(13, 1, {}, remark="x" * count)).reason for count in (190, 191, 192)]
    assert [(len(one), one[:10]) for one in reasons] == [(199, "code 13: x"), (200, "code 13: x"), (200, "code 13: x")]
