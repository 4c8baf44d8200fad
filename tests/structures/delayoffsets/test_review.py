"""The state of each delayed message by its level's offset, its copy and its times, and what is warned of."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.formats.topics import HALF_TOPIC, SCHEDULE_TOPIC
from store.structures.delayoffsets import review
from store.structures.delayoffsets.review import (
    DelayedMessage,
    DelayLevel,
    DelayState,
    _Copies,
    _Level,
    review_delays,
)

NOW_MS, DELAY_MS, NEXT = 1000, 100, 5


def level_of(line: BrokerLine = LINE_4_9, delay_ms: int | None = DELAY_MS) -> _Level:
    level = DelayLevel(3, delay_ms, 0, 9, NEXT)
    return _Level(cast(Any, SimpleNamespace(line=line)), level, cast(Any, None), cast(Any, None), NOW_MS)


def message(queue_offset: int = NEXT, deliver_ms: int = NOW_MS, copy: int = -1, topic: str | None = "T") -> Any:
    return DelayedMessage(
        DelayState.PENDING, 3, queue_offset, deliver_timestamp_ms=deliver_ms, delivered_log_offset=copy, topic=topic
    )


@pytest.mark.parametrize(
    ("saved", "low", "high", "following"),
    [(None, 0, 9, 0), (None, 2, 9, 2), (1, 2, 9, 2), (2, 2, 9, 2), (3, 2, 9, 3), (9, 2, 9, 9), (10, 2, 9, 9)],
)
def test_a_level_goes_on_at_its_saved_offset_within_the_queue(
    saved: int | None, low: int, high: int, following: int
) -> None:
    assert DelayLevel(1, 1, low, high, saved).next_offset == following


STATES: list[tuple[Any, BrokerLine, bool, bool, str]] = [
    (message(NEXT - 1, copy=0), LINE_4_9, False, False, "delivered"),
    (message(NEXT, copy=0), LINE_4_9, False, False, "duplicate"),
    (message(NEXT - 1), LINE_4_9, False, False, "assumed"),
    (message(NEXT - 1), LINE_4_9, True, False, "lost"),
    (message(NEXT - 1), LINE_5_3, True, False, "lost"),
    (message(NEXT - 1, topic=HALF_TOPIC), LINE_4_9, False, False, "lost"),
    (message(NEXT, copy=7, topic=HALF_TOPIC), LINE_4_9, False, False, "duplicate"),
    (message(), LINE_4_9, False, False, "due"),
    (message(), LINE_4_9, False, True, "blocked"),
    (message(), LINE_4_9, True, False, "lost"),
    (message(), LINE_5_3, True, False, "lost"),
    (message(), LINE_5_3, True, True, "lost"),
    (message(deliver_ms=NOW_MS + 1), LINE_4_9, False, True, "pending"),
    (message(deliver_ms=NOW_MS + 1), LINE_5_3, True, False, "lost"),
    (message(copy=0), LINE_4_9, True, False, "duplicate"),
]


@pytest.mark.parametrize(("one", "line", "is_poison", "is_blocked", "state"), STATES)
def test_a_state_follows_from_offset_copy_and_time(
    one: Any, line: BrokerLine, is_poison: bool, is_blocked: bool, state: str
) -> None:
    level = level_of(line)
    level.is_blocked = is_blocked
    assert level._state(one, is_poison=is_poison) == DelayState(state)


@pytest.mark.parametrize(
    ("queue_offset", "deliver_ms", "line", "is_poison", "blocks"),
    [
        (NEXT, NOW_MS, LINE_4_9, False, False),
        (NEXT, NOW_MS + 1, LINE_4_9, False, True),
        (NEXT, NOW_MS + DELAY_MS, LINE_4_9, False, True),
        (NEXT, NOW_MS + DELAY_MS + 1, LINE_4_9, False, False),
        (NEXT - 1, NOW_MS + 1, LINE_4_9, False, False),
        (NEXT, NOW_MS, LINE_4_9, True, True),
        (NEXT, NOW_MS, LINE_5_3, True, False),
        (NEXT - 1, NOW_MS, LINE_4_9, True, False),
    ],
)
def test_a_waiting_message_or_one_that_4_9_cannot_deliver_blocks_those_after_it(
    queue_offset: int, deliver_ms: int, line: BrokerLine, is_poison: bool, blocks: bool
) -> None:
    level = level_of(line)
    level._note_block(message(queue_offset, deliver_ms), is_poison=is_poison)
    assert level.is_blocked is blocks
    level.is_blocked = True
    level._note_block(message(queue_offset, deliver_ms), is_poison=is_poison)
    assert level.is_blocked


SOUND = {"REAL_TOPIC": "T", "REAL_QID": "0", "DELAY": "3"}


@pytest.mark.parametrize(
    ("delay_ms", "properties", "deliver_ms", "sys_flag", "warnings"),
    [
        (DELAY_MS, SOUND, 600, 0, []),
        (DELAY_MS, SOUND, 601, 0, ["the entry has deliver time 601 ms, store time and level give 600 ms"]),
        (None, SOUND, 1500, 0, ["level 3 is not configured, so no service delivers from its queue"]),
        (DELAY_MS, {**SOUND, "DELAY": "4"}, 600, 0, ["the property DELAY is 4, the queue is that of level 3"]),
        (DELAY_MS, SOUND, 600, 4, ["a part of a transaction cannot be delayed"]),
        (DELAY_MS, SOUND, 600, 8, []),
        (
            DELAY_MS,
            {},
            600,
            12,
            [
                "the property REAL_TOPIC is missing",
                "the property REAL_QID is missing",
                "the property DELAY is None, the queue is that of level 3",
                "a part of a transaction cannot be delayed",
            ],
        ),
    ],
)
def test_what_no_broker_wrote_is_warned_of_in_order(
    delay_ms: int | None, properties: dict[str, str], deliver_ms: int, sys_flag: int, warnings: list[str]
) -> None:
    record = cast(Any, SimpleNamespace(store_timestamp_ms=500, sys_flag=sys_flag))
    found = level_of(delay_ms=delay_ms)._warnings(message(deliver_ms=deliver_ms), record, properties)
    assert list(found) == warnings


def record(log_offset: int, topic: str = "T", stored_ms: int = 50, key: str = "", crc: int = 1) -> Any:
    return SimpleNamespace(
        log_offset=log_offset, topic=topic, store_timestamp_ms=stored_ms, uniq_key=key, properties={"DELAY": "3"},
        born_timestamp_ms=7, born_host="h", body_crc=crc,
    )  # fmt: skip


def test_a_copy_is_taken_once_by_the_first_source_before_it() -> None:
    plain = SimpleNamespace(**{**vars(record(90)), "properties": {}})
    copies = _Copies(
        [record(10), record(20), record(30, SCHEDULE_TOPIC), record(40, key="K"), record(45, crc=2), plain]
    )
    taken = [
        copies.take(source, topic, earliest_ms)
        for source, topic, earliest_ms in (
            (record(5), "U", 0),
            (record(5), "T", 51),
            (record(10), "T", 50),
            (record(9), "T", 50),
            (record(9), "T", 50),
            (record(39, key="K"), "T", 0),
            (record(44, crc=2), "T", 0),
            (record(44, crc=3), "T", 0),
        )
    ]
    assert [one and one.log_offset for one in taken] == [None, None, 20, 10, None, 40, 45, None]


def unit(log_offset: int) -> Any:
    return SimpleNamespace(log_offset=log_offset, tags_code=-log_offset)


def full(log_offset: int, **properties: str) -> Any:
    properties = {**SOUND, **properties}
    return SimpleNamespace(**{**vars(record(log_offset)), "properties": properties, "sys_flag": 0, "uniq_key": "K"})


def test_a_level_has_a_row_for_each_message_from_its_saved_offset_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the queue lost; without a record assumed or lost; the rest by its record."""
    units = [(3, unit(10), None), (4, unit(20), None), (5, unit(30), full(30)), (6, unit(40), None)]
    monkeypatch.setattr(review, "queue_records", lambda log, queue: units)
    queue = cast(Any, SimpleNamespace(real_tags_code=lambda code: 1000 - code))
    opened = cast(Any, SimpleNamespace(line=LINE_4_9, log=None))
    level = DelayLevel(3, 960, 3, 7, 1)
    found = _Level(opened, level, queue, _Copies([record(90, stored_ms=1010, key="K")]), NOW_MS).messages()
    lost, assumed = DelayState.LOST, DelayState.ASSUMED
    assert list(found) == [
        DelayedMessage(lost, 3, 1),
        DelayedMessage(lost, 3, 2),
        DelayedMessage(lost, 3, 3, 10, deliver_timestamp_ms=1010),
        DelayedMessage(lost, 3, 4, 20, deliver_timestamp_ms=1020),
        DelayedMessage(
            DelayState.DUPLICATE, 3, 5, 30, 50, 1030, 90, "T", 0, "K",
            ["the entry has deliver time 1030 ms, store time and level give 1010 ms"],
        ),
        DelayedMessage(lost, 3, 6, 40, deliver_timestamp_ms=1040),
    ]  # fmt: skip
    done = _Level(opened, DelayLevel(3, 960, 3, 7, 4), queue, _Copies([]), NOW_MS).messages()
    assert [one.state for one in done] == [assumed, lost, DelayState.PENDING, lost]
    new = _Level(opened, replace(level, saved_offset=None), queue, _Copies([]), NOW_MS).messages()
    assert [one.queue_offset for one in new] == [3, 4, 5, 6]


@pytest.mark.parametrize(
    ("deliver_ms", "delay_ms", "stored_ms", "is_found"),
    [(500, 960, 500, True), (500, 960, 499, False), (5000, 100, 150, True), (5000, 100, 149, False)],
)
def test_a_copy_is_one_of_after_the_time_or_the_delay(
    deliver_ms: int, delay_ms: int, stored_ms: int, is_found: bool
) -> None:
    level = level_of(delay_ms=delay_ms)
    level.copies = _Copies([record(90, stored_ms=stored_ms, key="K")])
    one = message(deliver_ms=deliver_ms)
    level._judge(one, full(30))
    assert one.delivered_log_offset == (90 if is_found else -1)


@pytest.mark.parametrize(
    ("properties", "state", "queue_id"),
    [
        ({}, "due", 0),
        ({"REAL_QID": "x"}, "lost", -1),
        ({"REAL_TOPIC": ""}, "due", 0),
        ({"REAL_QID": "-1"}, "due", -1),
    ],
)
def test_a_message_without_a_real_queue_stops_4_9(properties: dict[str, str], state: str, queue_id: int) -> None:
    level = level_of()
    level.copies = _Copies([])
    one = message()
    level._judge(one, full(30, **properties))
    assert (one.state, one.queue_id, level.is_blocked) == (DelayState(state), queue_id, state == "lost")


def test_a_level_is_one_with_a_queue_or_a_saved_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review, "read_delay_offsets", lambda layout, fs: {2: 9, 4: 5, 0: 1})
    monkeypatch.setattr(review, "rewritten_records", lambda log: [])
    monkeypatch.setattr(review, "queue_records", lambda log, queue: [(queue.min_offset, unit(10), None)])
    queues = [
        SimpleNamespace(queue_id=number, min_offset=7, max_offset=8, real_tags_code=lambda code: code)
        for number in (0, 1, 3)
    ]
    opened = cast(Any, SimpleNamespace(
        layout=None, fs=None, log=None, line=LINE_4_9, config=SimpleNamespace(delay_levels_ms=(100, 200, 300)),
        queues=SimpleNamespace(of_topic=lambda topic: queues if topic == SCHEDULE_TOPIC else []),
    ))  # fmt: skip
    levels, messages = review_delays(opened, NOW_MS)
    assert levels == [
        DelayLevel(0, None, 0, 0, 1),
        DelayLevel(1, 100, 7, 8, None),
        DelayLevel(2, 200, 7, 8, 9),
        DelayLevel(4, None, 7, 8, 5),
    ]
    states = [(one.level, one.queue_offset, str(one.state)) for one in messages]
    assert states == [(1, 7, "lost"), (2, 7, "assumed"), (4, 5, "lost"), (4, 6, "lost"), (4, 7, "lost")]
