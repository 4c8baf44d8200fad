"""A broker has settled when nothing waits, and what it had is in its index; the time of that is limited."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.engine.remoting import settling
from store.engine.remoting.settling import LEAST_S, Settling
from store.errors import BadRequest

SENT_MS = 100_000


class Broker:
    """A broker with these states, one for each request; the last one stays. Its clock moves with each sleep."""

    def __init__(self, *states: tuple[int, int, int]) -> None:
        self.states, self.asked, self.now_s, self.slept = list(states), 0, SENT_MS / 1000, list[float]()

    def ask(self, code: int) -> Any:
        waits, end, behind = self.states[min(self.asked, len(self.states) - 1)]
        self.asked += 1
        table = {"sendThreadPoolQueueHeadWaitTimeMills": waits, "commitLogMaxOffset": end,
                 "dispatchBehindBytes": behind, "earliestMessageTimeStamp": 77}  # fmt: skip
        return SimpleNamespace(code=0, body=json.dumps({"table": table}).encode(), remark="")

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def settle(self, monkeypatch: pytest.MonkeyPatch) -> Settling | str:
        monkeypatch.setattr(settling, "time", SimpleNamespace(sleep=self.sleep, monotonic=lambda: self.now_s))
        return Settling.wait(cast(Any, self), SENT_MS, lambda: int(self.now_s * 1000))


@pytest.mark.parametrize(
    ("states", "asked"),
    [
        ([(0, 500, 0)], 1),
        ([(2000, 500, 0)], 1),
        ([(2001, 500, 0), (0, 500, 0)], 2),
        ([(0, 500, 1), (0, 500, 0)], 2),
        ([(0, 500, 9), (0, 600, 101), (0, 600, 100)], 3),
        ([(9999, 500, 0), (9999, 900, 0), (0, 700, 1), (0, 700, 0)], 4),
    ],
)
def test_it_has_settled_when_the_index_has_reached_the_end_of_a_log_with_nothing_waiting(
    states: list[tuple[int, int, int]], asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(*states)
    assert broker.settle(monkeypatch) == Settling(77)
    assert (broker.asked, broker.slept) == (asked, [LEAST_S, *[0.2] * (asked - 1)])


def test_a_broker_that_does_not_settle_is_named_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker((0, 500, 1))
    assert broker.settle(monkeypatch) == "the broker has not done in 60 seconds what it had got"
    assert 60 <= broker.now_s - SENT_MS / 1000 < 61


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (SimpleNamespace(code=1, remark="no", body=b""), "the broker does not show its state: code 1: no"),
        (SimpleNamespace(code=-1, remark="r" * 201, body=b""), f"code -1: {'r' * 200}$"),
        (SimpleNamespace(code=0, remark="", body=b'{"table":{}}'), "the broker's state does not give sendThread"),
        (SimpleNamespace(code=0, remark="", body=b'{"table":{"sendThreadPoolQueueHeadWaitTimeMills":"x"}}'),
         "the broker's state does not give sendThread"),
    ],
)  # fmt: skip
def test_a_broker_without_its_state_is_refused(answer: Any, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    monkeypatch.setattr(broker, "ask", lambda code: answer)
    with pytest.raises(BadRequest, match=reason):
        broker.settle(monkeypatch)


@pytest.mark.parametrize(("earliest_ms", "is_unknown"), [(SENT_MS - 1, False), (SENT_MS, False), (SENT_MS + 1, True)])
def test_a_message_may_be_missing_where_the_broker_deleted_its_time(earliest_ms: int, is_unknown: bool) -> None:
    told = "the broker has deleted messages of that time"
    assert Settling(earliest_ms).unknown(SENT_MS) == (told if is_unknown else "")
