"""A cold check lets the page cache drop each segment that it has walked, and finds what any other finds."""

from __future__ import annotations

import pytest

from store.check.check import CheckOptions, check_files
from store.disk.filesystem import Descriptor, Filesystem
from store.disk.store_reader import StoreReader
from tests.support.golden import golden


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were dropped whole."""
    names: list[str] = []

    def dont_need(self: Filesystem, descriptor: Descriptor, position: int, size: int) -> None:
        assert (position, size) == (0, 0), "from the beginning to the end"
        names.append(descriptor.path.name)

    monkeypatch.setattr(Filesystem, "dont_need", dont_need)
    return names


@pytest.mark.parametrize("cold", [True, False])
def test_a_cold_check_drops_every_segment_once(cold: bool, dropped: list[str]) -> None:
    files = StoreReader(str(golden("normal").store))
    assert list(check_files(files, CheckOptions(cold=cold))) == []
    assert sorted(dropped) == ([f"{segment.number:020d}" for segment in files.segments()] if cold else [])
