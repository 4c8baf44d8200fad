"""A slice of tests.runs.backups: kills of both kinds of backups, of the owner, and an end by SIGTERM."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.backups import KilledBackups


@pytest.mark.turns(4)
def test_killed_backups_lose_nothing_and_each_restored_moment_has_what_was_acknowledged_before(tmp_path: Path) -> None:
    run = KilledBackups(tmp_path, seed=8)
    run.run(kills=1)
    assert run.restored >= 2
    assert run.owner_kills == 1
