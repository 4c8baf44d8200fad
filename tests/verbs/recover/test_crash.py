"""A process killed in the middle of putting loses nothing that it had acknowledged (see crash.py for the long run)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.crash import crash_rounds

ROUNDS = 10


@pytest.mark.slow
def test_after_ten_kills_every_acknowledged_message_is_there_once_and_in_order(tmp_path: Path) -> None:
    assert len(crash_rounds(tmp_path, ROUNDS, seed=4711)) == ROUNDS
