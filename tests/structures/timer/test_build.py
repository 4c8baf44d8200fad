"""The slot that a rebuild gives a timer message, by its time, the read time and the roll window."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from store.structures.timer.build import PLAIN, _metrics_of, _Plan, _Unit
from store.structures.timer.files import DELETE, NO_FILES, ROLL
from store.structures.timer.message import TimerMessage, TimerState

READ_MS = 1_700_000_000_000
WINDOW = 6
MS = 1000


def unit(slot_ms: int, write_ms: int = 0, magic: int = PLAIN, topic: str | None = "T") -> _Unit:
    return _Unit(slot_ms, magic, write_ms, TimerMessage(TimerState.PENDING, 0, 0, 0, topic))


@pytest.mark.parametrize(
    ("slot_ms", "write_ms", "is_done", "has_rolled", "placed"),
    [
        pytest.param(-1, 0, False, False, (0, PLAIN), id="overdue: it fires next"),
        pytest.param(-1, 0, True, False, (-1, PLAIN), id="done: it stays in its slot"),
        pytest.param(0, 0, True, False, (0, PLAIN), id="at the read time"),
        pytest.param(5999, 0, False, False, (5999, PLAIN), id="within the window"),
        pytest.param(6000, 0, False, False, (3000, PLAIN | ROLL), id="at the window: half of it"),
        pytest.param(7999, 0, False, False, (3000, PLAIN | ROLL), id="within a third of it behind: half of it"),
        pytest.param(8000, 0, False, False, (6000, PLAIN | ROLL), id="a third of it behind: all of it"),
        pytest.param(60_000, 0, False, False, (6000, PLAIN | ROLL), id="far behind"),
        pytest.param(8000, 2001, False, False, (8000, PLAIN), id="within the window of a later write"),
        pytest.param(8001, 2001, False, False, (5000, PLAIN | ROLL), id="at the window of a later write"),
        pytest.param(60_000, -5000, False, False, (6000, PLAIN | ROLL), id="written before the read time"),
        pytest.param(60_000, 999, False, False, (6000, PLAIN | ROLL), id="a slot's time is whole seconds"),
        pytest.param(60_000, 1000, False, False, (7000, PLAIN | ROLL), id="a second later"),
        pytest.param(60_000, 0, False, True, (-1000, PLAIN | ROLL), id="it had rolled: in a slot that has fired"),
        pytest.param(-2000, 0, False, True, (-2000, PLAIN | ROLL), id="it had rolled, and was due earlier"),
    ],
)
def test_a_message_gets_the_slot_of_its_time_or_of_its_next_roll(
    slot_ms: int, write_ms: int, is_done: bool, has_rolled: bool, placed: tuple[int, int]
) -> None:
    one = unit(READ_MS + slot_ms, READ_MS + write_ms)
    plan = _Plan(cast(Any, None), replace(NO_FILES), WINDOW)
    plan._place(one, READ_MS, is_done=is_done, has_rolled=has_rolled)
    assert (one.slot_ms - READ_MS, one.magic) == placed


def test_pending_messages_are_counted_by_topic_and_a_delete_is_one_less() -> None:
    units = [
        unit(READ_MS - 1),
        unit(READ_MS),
        unit(READ_MS + 1),
        unit(READ_MS, magic=PLAIN | DELETE),
        unit(READ_MS, topic="S"),
        unit(READ_MS, topic=None),
    ]
    counts = ",".join(f'"{topic}":{{"count":1,"timeStamp":{READ_MS}}}' for topic in ("", "S", "T"))
    version = f'{{"counter":1,"stateVersion":0,"timestamp":{READ_MS}}}'
    assert _metrics_of(units, READ_MS).decode() == f'{{"dataVersion":{version},"timingCount":{{{counts}}}}}'
