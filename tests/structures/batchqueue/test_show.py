"""The line for people about the batch queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.batchqueue.show import describe
from store.structures.registry import Present


@pytest.mark.parametrize(("count", "named"), [(0, None), (1, "A"), (5, "A, B, C, D, E"), (6, "A, B, C, D, E")])
def test_the_first_five_topics_of_batch_queues_are_named(count: int, named: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "batchconsumequeue"
    for topic in "ABCDEF"[:count]:
        (folder / topic).mkdir(parents=True)
    folder.mkdir(exist_ok=True)
    (folder / "file").touch()
    detail = f"queue.type=BatchCQ of {named}"
    expected = [Present("set of batch consume queues", "batchconsumequeue", detail)] if named else []
    assert list(describe(StoreLayout(tmp_path), Filesystem())) == expected
