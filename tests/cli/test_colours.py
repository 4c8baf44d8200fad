"""Colours of cells and verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.colours import style_of, tone
from rmqctl.result import Result


@pytest.mark.parametrize(
    ("name", "cell", "color"),
    [
        ("state", "ok", "green"),
        ("state", "lost", "red"),
        ("state", "stale", "yellow"),
        ("state", "other", ""),
        ("rank", "1", "red"),
        ("rank", "2", "red"),
        ("rank", "3", "yellow"),
        ("rank", "4", ""),
        ("rank", "ok", ""),
        ("lost_messages", "0", ""),
        ("lost_messages", "7", "red"),
        ("damaged_bytes", "0 B", ""),
        ("damaged_bytes", "12 B", "red"),
        ("lost_messages", "-", ""),
        ("lost_messages", "", ""),
        ("starts", "yes", "green"),
        ("starts", "no", "red"),
        ("other", "yes", ""),
        ("backup_state", "missing", ""),
        ("state", "missing", "red"),
    ],
)
def test_a_cell_is_coloured_by_its_word_rank_or_count(name: str, cell: str, color: str) -> None:
    assert style_of(name, cell) == color


@pytest.mark.parametrize(
    ("facts", "code", "color"),
    [
        ({}, 0, 32),
        ({}, 1, 33),
        ({"lost_messages": 1}, 0, 31),
        ({"damaged_count": 1}, 1, 31),
        ({"deleted_unconsumed": 1}, 0, 31),
        ({"lost_messages": 0}, 0, 32),
        ({"worst_rank": None}, 0, 32),
        ({"worst_rank": 0}, 1, 33),
        ({"worst_rank": 1}, 1, 31),
        ({"worst_rank": 2}, 1, 31),
        ({"worst_rank": 3}, 1, 33),
    ],
)
def test_a_verdict_is_red_for_losses_and_yellow_for_findings(facts: dict[str, Any], code: int, color: int) -> None:
    assert tone(Result("x", facts, exit_code=code)) == color
