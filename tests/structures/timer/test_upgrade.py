"""What another version makes of timer messages: deletes, a wheel in a snapshot, and timers in a database."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, LINE_5_5, BrokerLine
from store.structures.timer import upgrade
from store.structures.timer.files import WHEEL
from store.structures.timer.message import TimerMessage, TimerState
from store.structures.trap import Trap

DELETED, DELIVERED, PENDING = TimerState.DELETED, TimerState.DELIVERED, TimerState.PENDING


def notes(
    monkeypatch: pytest.MonkeyPatch,
    lines: tuple[BrokerLine, BrokerLine],
    states: tuple[list[TimerState], list[TimerState]],
    *,
    wheel: str = WHEEL,
    taken_up: int | None = None,
    in_database: bool = False,
) -> list[Trap]:
    """The notes on a store whose messages have these states in each version."""
    own, other = (
        cast(Any, SimpleNamespace(line=line, layout=None, fs=None, config=None, states=of_line))
        for line, of_line in zip(lines, states, strict=True)
    )
    checkpoint = None if taken_up is None else SimpleNamespace(queue_offset=taken_up)
    files = SimpleNamespace(wheel_name=wheel, checkpoint=checkpoint)
    monkeypatch.setattr(upgrade, "read_timer_files", lambda *given: files)
    monkeypatch.setattr(upgrade, "read_timeline", lambda opened: "timeline" if in_database else None)
    monkeypatch.setattr(
        upgrade,
        "_messages",
        lambda opened: [TimerMessage(state, number, 0, 0) for number, state in enumerate(opened.states)],
    )
    return list(upgrade.notes(own, other))


@pytest.mark.parametrize(
    ("lines", "own", "other", "found"),
    [
        ((LINE_5_3, LINE_5_5), [DELETED, DELETED, PENDING], [DELETED, PENDING, PENDING],
         [Trap("timer-deletes", "1 deleted timer message is delivered: a delete names the key alone", (1,))]),
        ((LINE_5_5, LINE_5_3), [DELETED, DELETED, PENDING], [PENDING, PENDING, PENDING],
         [Trap("timer-deletes-by-key", "2 deleted timer messages are delivered: a delete names topic and key", (2,))]),
        ((LINE_5_5, LINE_5_3), [DELETED, PENDING], [DELETED, DELETED], []),
        ((LINE_5_3, LINE_5_3), [DELETED], [PENDING], []),
        ((LINE_5_5, LINE_5_5), [DELETED], [PENDING], []),
    ],
)  # fmt: skip
def test_a_message_that_only_one_version_deletes_is_delivered_by_the_other(
    lines: tuple[BrokerLine, BrokerLine],
    own: list[TimerState],
    other: list[TimerState],
    found: list[Trap],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert notes(monkeypatch, lines, (own, other)) == found


@pytest.mark.parametrize(
    ("own", "found"),
    [
        ([DELETED, PENDING, DELIVERED, TimerState.ROLLED],
         [Trap("timers-unread", "2 timer messages never delivered: a 4.9 broker has no timer", (2,))]),
        ([DELETED, DELIVERED, TimerState.DELETE], []),
    ],
)  # fmt: skip
def test_4_9_delivers_none_that_wait(own: list[TimerState], found: list[Trap], monkeypatch: pytest.MonkeyPatch) -> None:
    assert notes(monkeypatch, (LINE_5_5, LINE_4_9), (own, own)) == found


DOWN, UP = (LINE_5_5, LINE_5_3), (LINE_5_3, LINE_5_5)


def test_5_3_does_not_find_a_wheel_in_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    trap = Trap("wheel-in-snapshot", f"the wheel is in timerwheel.7, and {WHEEL} is older or empty")
    assert notes(monkeypatch, DOWN, ([], []), wheel="timerwheel.7") == [trap]
    assert notes(monkeypatch, UP, ([], []), wheel="timerwheel.7") == []


@pytest.mark.parametrize(
    ("taken_up", "at", "count"),
    [(None, 0, "2 delivered messages"), (0, 0, "2 delivered messages"), (1, 1, "1 delivered message"),
     (2, 2, "1 delivered message"), (3, 3, "0 delivered messages")],
)  # fmt: skip
def test_timers_that_a_database_had_delivered_are_delivered_again_by_5_3(
    taken_up: int | None, at: int, count: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = [DELIVERED, PENDING, DELIVERED]
    detail = f"the wheel takes up the queue of timers at {at}: {count} again"
    trap = Trap("timers-in-database", detail, (int(count[0]),))
    assert notes(monkeypatch, DOWN, (states, []), taken_up=taken_up, in_database=True) == [trap]
    assert notes(monkeypatch, UP, (states, []), taken_up=taken_up, in_database=True) == []
