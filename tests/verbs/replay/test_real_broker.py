"""What a real start cuts off is sent into the real broker, and each message reaches a real consumer once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.killed_replays import run_killed
from tests.support.refbroker import needs_refbroker, needs_refbroker55

BOTH_LINES = [pytest.param("4.9", marks=needs_refbroker), pytest.param("5.5", marks=needs_refbroker55)]


@pytest.mark.parametrize("line", BOTH_LINES)
def test_the_losses_of_a_real_start_reach_a_consumer_once_over_kills_of_replay(tmp_path: Path, line: str) -> None:
    assert run_killed(tmp_path, line, count=200, kills=3, seed=1) == 99
