"""Index files of any geometry: a sound store has no findings, with and without settings that name the geometry."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from store.files.store_reader import StoreReader
from store.verbs.check.check import check_files
from tests.support.stores import make_store

SEEDS = range(40)


def random_settings(seed: int) -> dict[str, int]:
    """A slot count and an entry count drawn by lot: few slots, many slots, few entries, many entries."""
    random = Random(seed)
    slots = random.choice([1, 2, 5, 63, 64, 65, 100, 499, 500, 501, random.randrange(1, 5000)])
    return {"maxHashSlotNum": slots, "maxIndexNum": random.choice([2, 3, 7, 40, random.randrange(2, 3000)])}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_with_any_index_geometry_has_no_findings(seed: int, tmp_path: Path) -> None:
    random = Random(f"messages {seed}")
    root = make_store(tmp_path / "s", random.randrange(1, 60), **random_settings(seed))
    assert list(check_files(StoreReader(str(root)))) == []
