"""Slices of the soak: writers and readers at a served store whose owner is killed once, or has hostile connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.soak import Soak


@pytest.mark.slow
def test_no_acknowledged_message_is_lost_and_memory_stays_flat(tmp_path: Path) -> None:
    soak = Soak(tmp_path / "store", seconds=8, writers=4, readers=2, kills=1)
    soak.run()
    assert soak.failures == []
    assert soak.message_count > 100
    assert soak.read_count > 100
    assert soak.memory_growth() < 1.3


@pytest.mark.slow
def test_hostile_connections_lose_no_message_and_hang_no_put(tmp_path: Path) -> None:
    soak = Soak(tmp_path / "store", seconds=6, writers=2, readers=2, kills=0, connections=500)
    soak.run()
    assert soak.failures == []
    assert soak.message_count > 100
    assert soak.hostile.made.total() > 500
    assert len(soak.hostile.made) == 12
