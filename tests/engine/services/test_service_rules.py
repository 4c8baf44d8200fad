"""Bounds of delays and transactions by the clock."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from store.engine.services.schedule import ScheduleMessageService
from store.engine.services.transaction_check import MOST_MISSES, OPS_OF_A_PULL, PASS_LIMIT_MS, CheckPass, CheckRules
from store.engine.services.transaction_messages import CHECK_IMMUNITY
from store.engine.services.transaction_service import TransactionalMessageService
from store.errors import BadRequest


@pytest.mark.parametrize(
    ("began", "saved_at", "done"),
    [
        (1001, 1, []),
        (1000, 1, ["deliver"]),
        (2000, -8000, ["persist"]),
        (2000, -7999, []),
        (1000, -8000, ["deliver", "persist"]),
    ],
)
def test_delays_are_delivered_after_a_second_and_saved_every_ten(began: int, saved_at: int, done: list[str]) -> None:
    calls: list[str] = []
    service: Any = SimpleNamespace(
        _clock=lambda: 2000, _began=began, _saved_at=saved_at,
        deliver=lambda: calls.append("deliver"), persist=lambda: calls.append("persist"),
    )  # fmt: skip
    ScheduleMessageService.work(service)
    assert calls == done


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


@pytest.mark.parametrize(
    ("immunity", "age_ms", "is_refused"),
    [
        (None, 99_999, False),
        ("10", 10_000, False),
        ("10", 10_001, True),
        ("5", 6000, False),
        ("5", 6001, True),
        ("x", 6000, False),
        ("x", 6001, True),
    ],
)
def test_an_end_is_refused_behind_the_longer_of_immunity_and_timeout(
    immunity: str | None, age_ms: int, is_refused: bool
) -> None:
    service: Any = SimpleNamespace(_clock=lambda: 100_000, _rules=CheckRules())
    properties = {} if immunity is None else {CHECK_IMMUNITY: immunity}
    half: Any = SimpleNamespace(properties=properties, born_timestamp_ms=100_000 - age_ms, log_offset=5)
    with pytest.raises(BadRequest, match="immunity is over") if is_refused else nullcontext():
        TransactionalMessageService._refuse_late_end(service, half)
