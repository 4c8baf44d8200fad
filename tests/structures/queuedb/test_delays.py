"""The units of delayed messages in a database, by level."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.errors import DamagedFile
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.queuedb import delays

QUEUES = {("SCHEDULE_TOPIC_XXXX", 17): None, ("T", 0): None, ("SCHEDULE_TOPIC_XXXX", 0): None}


@pytest.mark.parametrize(("is_there", "is_lost"), [(True, False), (True, True), (False, False)])
def test_each_level_has_the_units_of_the_queue_before_it(
    is_there: bool, is_lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*given: object) -> Any:
        if is_lost:
            raise DamagedFile("x")
        return SimpleNamespace(newest=QUEUES, units=lambda queue: queue)

    monkeypatch.setattr(delays, "open_database", opened)
    (tmp_path / "consumequeue").mkdir()
    if is_there:
        (tmp_path / "consumequeue/CURRENT").touch()
    found = cast(Any, list(delays.units_of(StoreLayout(tmp_path), Filesystem())))
    levels = [(1, ("SCHEDULE_TOPIC_XXXX", 0)), (18, ("SCHEDULE_TOPIC_XXXX", 17))]
    assert found == (levels if is_there and not is_lost else [])
