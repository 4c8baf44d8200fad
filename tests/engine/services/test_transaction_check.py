"""One pass over the half queue: the broker's numbers, and each outcome by a half's age to the millisecond."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.engine.services.transaction_check import (
    MOST_MISSES,
    OPS_OF_A_PULL,
    PASS_LIMIT_MS,
    CheckPass,
    CheckReport,
    CheckRules,
)
from tests.engine.services.test_transaction_service import transactions


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


@pytest.mark.parametrize(("properties", "age_ms", "counts"), OUTCOMES)
def test_a_half_has_its_outcome_by_its_age(
    properties: dict[str, str], age_ms: int, counts: tuple[int, int, int], tmp_path: Path
) -> None:
    with transactions(tmp_path / "s", fileReservedTime=1) as made:
        made.prepare("A", **properties)
        report = made.check(age_ms)
    assert (len(report.put_back), len(report.checked), len(report.discarded)) == counts
    assert report == CheckReport(sum(counts), 0, report.checked, report.put_back, report.discarded)
