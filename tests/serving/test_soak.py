"""A slice of the soak: writers and readers at a served store whose owner is killed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving.soak import Soak


@pytest.mark.slow
def test_no_acknowledged_message_is_lost_and_memory_stays_flat(tmp_path: Path) -> None:
    soak = Soak(tmp_path / "store", seconds=8, writers=4, readers=2, kills=1)
    soak.run()
    assert soak.failures == []
    assert soak.message_count > 100
    assert soak.read_count > 100
    assert soak.memory_growth() < 1.3
