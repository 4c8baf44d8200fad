"""A slice of link_cuts: the copy is byte-identical however often the link is cut or the copying process killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.ha.link_cuts import SETTINGS, copy_over_cuts, copy_over_kills, require_same
from tests.support.stores import make_store


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", range(3))
def test_a_link_cut_fifty_times_gives_the_same_log(seed: int, tmp_path: Path) -> None:
    store = make_store(tmp_path / "master", 2000, **SETTINGS)
    cuts = copy_over_cuts(store, tmp_path / "copy", cuts=50, most_bytes=12_000, overlap_bytes=1000, seed=seed)
    assert cuts == 50
    require_same(store, tmp_path / "copy")


@pytest.mark.slow
def test_a_killed_copy_goes_on(tmp_path: Path) -> None:
    store = make_store(tmp_path / "master", 2000, **SETTINGS)
    copy_over_kills(store, tmp_path / "copy", kills=3, seed=1)
    require_same(store, tmp_path / "copy")
