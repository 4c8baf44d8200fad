"""The row of a group's SQL subscription, from a broker that has it and from a file."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.commands.filter import _row
from store.structures.tables.consumer_filters import ConsumerFilter

ROW: dict[str, Any] = {
    "group": "G",
    "topic": "T",
    "expression_type": "SQL92",
    "expression": "a > 5",
    "compiles": True,
    "is_dead": False,
    "born_timestamp_ms": 9,
    "dead_timestamp_ms": None,
    "client_version": 7,
    "bit_positions": [1, 2],
}


@pytest.mark.parametrize(
    ("expression", "dead_ms", "changed"),
    [
        ("a > 5", 0, {}),
        ("a > 5", 8, {"dead_timestamp_ms": 8}),
        ("a > 5", 9, {"dead_timestamp_ms": 9, "is_dead": True}),
        ("a >", 0, {"expression": "a >", "compiles": False}),
    ],
)
def test_a_subscription_is_dead_from_its_birth_on_and_else_has_no_time_of_that(
    expression: str, dead_ms: int, changed: dict[str, Any]
) -> None:
    found = ConsumerFilter("G", "T", expression, "SQL92", 7, 9, dead_ms, 32, (1, 2))
    assert _row(found) == ROW | changed
