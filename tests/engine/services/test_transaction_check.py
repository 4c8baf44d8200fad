"""One pass over the half queue: the broker's numbers, and each outcome by a half's age to the millisecond."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.broker_line import LINE_4_9, LINE_5_3
from store.engine.services.transaction_check import (
    MOST_MISSES,
    OPS_OF_A_PULL,
    PASS_LIMIT_MS,
    CheckPass,
    CheckReport,
    CheckRules,
)
from store.structures.get_result import GetResult, GetStatus
from tests.support.transactions import transactions

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"


def test_a_check_has_the_brokers_numbers() -> None:
    assert dataclasses.astuple(CheckRules()) == (6000, 15, 72)
    assert (PASS_LIMIT_MS, OPS_OF_A_PULL, MOST_MISSES) == (60_000, 32, 1)


@pytest.mark.parametrize(
    ("is_empty", "newest_ms", "age_ms", "is_needed"),
    [
        (True, 0, 6000, False),
        (True, 0, 6001, True),
        (False, 0, 6001, False),
        (False, 7000, 1, False),
        (False, 7001, 1, True),
        (False, 0, 0, False),
        (False, 0, -1, True),
        (False, 0, -2, True),
    ],
)
def test_a_half_is_checked_when_it_is_old_or_ops_of_later_came(
    is_empty: bool, newest_ms: int, age_ms: int, is_needed: bool
) -> None:
    one: Any = SimpleNamespace(
        _ops=SimpleNamespace(is_empty=is_empty, newest_ms=newest_ms), _began=1000, _rules=CheckRules()
    )
    assert CheckPass._is_check_needed(one, age_ms, 6000) is is_needed


OUTCOMES = [
    # of a half with this immunity and this age: put back, checked, given up
    ({}, 5999, (0, 0, 0)),
    ({}, 6000, (0, 0, 0)),
    ({}, 6001, (0, 1, 0)),
    ({}, 3_600_000, (0, 1, 0)),
    ({}, 3_600_001, (0, 0, 1)),
    ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "10"}, 9_999, (1, 0, 0)),
    ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "10"}, 10_000, (0, 0, 0)),
    ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "10"}, 10_001, (0, 1, 0)),
    ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "10", "TRAN_PREPARED_QUEUE_OFFSET": "-1"}, 9_999, (0, 0, 0)),
    ({"TRANSACTION_CHECK_TIMES": "14"}, 6001, (0, 1, 0)),
    ({"TRANSACTION_CHECK_TIMES": "15"}, 0, (0, 0, 1)),
]


@pytest.mark.turns(3)
@pytest.mark.parametrize(("properties", "age_ms", "counts"), OUTCOMES)
def test_a_half_has_its_outcome_by_its_age(
    properties: dict[str, str], age_ms: int, counts: tuple[int, int, int], tmp_path: Path
) -> None:
    with transactions(tmp_path / "s", fileReservedTime=1) as made:
        made.prepare("A", **properties)
        report = made.check(age_ms)
    assert (len(report.put_back), len(report.checked), len(report.discarded)) == counts
    assert report == CheckReport(sum(counts), 0, report.checked, report.put_back, report.discarded)


def passed(
    get: Any, *, line: Any = LINE_5_3, times: list[int] | None = None, half: int = 10, stops: int = 99
) -> tuple[int, int]:
    """Pass over queues that `get` answers for; give the offsets that it reached. The clock says the times in turn."""
    clock, asked = iter(times or [0] * 99), iter(range(99))
    store: Any = SimpleNamespace(opened=SimpleNamespace(line=line))
    report = CheckPass(
        store, lambda: next(clock), CheckRules(), half, 100, lambda one: None, get=get,
        is_stopped=lambda: next(asked) >= stops,
    ).run()  # fmt: skip
    return report.half_offset, report.op_offset


def queues(*ops: tuple[str, bytes], status: GetStatus = GetStatus.NO_MESSAGE_IN_QUEUE, behind: int = 0) -> Any:
    """Answer for op records of these tags and bodies from 100 on, and for no halves, `behind` before the next."""
    records: list[Any] = [
        SimpleNamespace(queue_offset=100 + at, tags=tags, body=body, born_timestamp_ms=0)
        for at, (tags, body) in enumerate(ops)
    ]

    def get(topic: str, queue_id: int, offset: int, count: int) -> GetResult:
        if topic == HALF_TOPIC or offset >= 100 + len(records):
            is_half = topic == HALF_TOPIC
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE if is_half else status, offset + behind, 0, 0)
        return GetResult(GetStatus.FOUND, 100 + len(records), 0, 0, records)

    return get


@pytest.mark.parametrize(
    ("line", "ops", "reached"),
    [
        (LINE_5_3, [("d", b"10,")], (11, 101)),
        (LINE_5_3, [("d", b"10")], (11, 101)),
        (LINE_5_3, [("d", b"10,11,")], (12, 101)),
        (LINE_5_3, [("d", b"10,12,")], (11, 100)),
        (LINE_5_3, [("d", b"11,"), ("d", b"10,")], (12, 102)),
        (LINE_5_3, [("d", b"12,"), ("d", b"10,")], (11, 100)),
        (LINE_5_3, [("d", b"10,"), ("d", b"12,")], (11, 101)),
        (LINE_5_3, [("d", b"9,")], (10, 101)),
        (LINE_5_3, [("d", b"z,")], (10, 101)),
        (LINE_5_3, [("x", b"10,")], (10, 101)),
        (LINE_4_9, [("x", b"10")], (10, 100)),
        (LINE_4_9, [("d", b"10")], (11, 101)),
        (LINE_4_9, [("d", b"10,11,")], (10, 101)),
        (LINE_4_9, [("d", b"10"), ("d", b"11")], (12, 102)),
    ],
)
def test_halves_that_op_records_name_are_passed_and_so_are_the_records(
    line: Any, ops: list[tuple[str, bytes]], reached: tuple[int, int]
) -> None:
    assert passed(queues(*ops), line=line) == reached


@pytest.mark.parametrize(
    ("status", "op_offset"),
    [
        (GetStatus.NO_MESSAGE_IN_QUEUE, 100),
        (GetStatus.OFFSET_OVERFLOW_ONE, 100),
        (GetStatus.OFFSET_TOO_SMALL, 107),
        (GetStatus.OFFSET_FOUND_NULL, 107),
        (GetStatus.OFFSET_OVERFLOW_BADLY, 107),
    ],
)
def test_op_records_that_are_gone_are_passed(status: GetStatus, op_offset: int) -> None:
    assert passed(queues(status=status, behind=7)) == (10, op_offset)


@pytest.mark.parametrize(
    ("status", "half_offset", "looks"),
    [
        (GetStatus.NO_MESSAGE_IN_QUEUE, 10, [10]),
        (GetStatus.OFFSET_OVERFLOW_ONE, 10, [10]),
        (GetStatus.OFFSET_TOO_SMALL, 17, [10, 17]),
        (GetStatus.OFFSET_FOUND_NULL, 17, [10, 17]),
        (GetStatus.OFFSET_OVERFLOW_BADLY, 17, [10, 17]),
    ],
)
def test_a_pass_goes_past_missing_halves_once(status: GetStatus, half_offset: int, looks: list[int]) -> None:
    looked = []

    def get(topic: str, queue_id: int, offset: int, count: int) -> GetResult:
        if topic != HALF_TOPIC:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        looked.append(offset)
        return GetResult(status, offset + 7, 0, 0)

    assert (passed(get), looked) == ((half_offset, 100), looks)


@pytest.mark.parametrize(
    ("times", "stops", "half_offset"),
    [
        ([5, 60_005, 60_005, 60_006], 99, 12),
        ([5, 60_006], 99, 10),
        ([5, 5, 5, 5, 5], 0, 10),
        ([5, 5, 5, 5, 5], 2, 12),
    ],
)
def test_a_pass_takes_a_minute_and_ends_at_a_stop(times: list[int], stops: int, half_offset: int) -> None:
    named = queues(("d", b"10,11,12,13,"))
    assert passed(named, times=times, stops=stops)[0] == half_offset


@pytest.mark.parametrize(("stored_before_ms", "checked"), [(0, 0), (1, 1)])
def test_a_half_that_was_stored_since_the_pass_began_is_left(
    stored_before_ms: int, checked: int, tmp_path: Path
) -> None:
    with transactions(tmp_path / "s") as made:
        made.clock.now_ms += 10_000
        message = made.message("A", born_timestamp_ms=made.clock.now_ms - 10_000)
        made.service.prepare(message, "PG")
        assert len(made.check(stored_before_ms).checked) == checked
