"""Whether a database has all that the files of its queues have."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.errors import DamagedFile
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.queuedb import recover
from store.structures.queuedb.keys import Place
from store.structures.queuedb.recover import _reaches


@pytest.mark.parametrize(
    ("newest", "checkpoint", "queue_end", "reaches"),
    [
        ([10, 90], 95, 95, True),
        ([90, 10], 91, 91, True),
        ([10, 90], 90, 90, False),
        ([10, 90], 50, 50, False),
        ([10, 90], 95, 96, False),
        ([10, 90], 95, 94, False),
        ([], 0, 0, True),
        ([], -1, -1, False),
        (None, 95, 95, False),
    ],
)
def test_a_database_reaches_the_files_end_with_its_checkpoint_past_all_its_records(
    newest: list[int] | None, checkpoint: int, queue_end: int, reaches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*given: object) -> Any:
        if newest is None:
            raise DamagedFile("x")
        places = {("T", number): Place(log_offset, 0) for number, log_offset in enumerate(newest)}
        return SimpleNamespace(newest=places, checkpoint=checkpoint)

    monkeypatch.setattr(recover, "open_database", opened)
    store = cast(Any, SimpleNamespace(layout=StoreLayout(Path("store")), fs=Filesystem()))
    assert _reaches(store, queue_end) is reaches
