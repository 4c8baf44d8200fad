"""The line for people about the compaction store."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.compaction.show import describe
from store.structures.registry import Present


@pytest.mark.parametrize(("count", "named"), [(0, None), (1, "A"), (5, "A, B, C, D, E"), (6, "A, B, C, D, E")])
def test_the_first_five_compacted_topics_are_named(count: int, named: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "compaction/compactionLog"
    for topic in "ABCDEF"[:count]:
        (folder / topic).mkdir(parents=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "file").touch()
    detail = f"cleanup.policy=COMPACTION of {named}"
    expected = [Present("compacted topics", "compaction", detail)] if named else []
    assert list(describe(StoreLayout(tmp_path), Filesystem())) == expected
