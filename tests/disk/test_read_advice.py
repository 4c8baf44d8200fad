"""A long walk reads ahead and, if asked, leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.disk import read_advice
from store.disk.filesystem import Descriptor, Filesystem
from store.disk.read_advice import ReadAdvice

PAGE = 4096
SIZE = 64 * PAGE


class ToldFilesystem(Filesystem):
    """Remembers the advice it is given."""

    def __init__(self) -> None:
        self.dropped: list[tuple[str, int, int]] = []
        self.wanted: list[tuple[str, int]] = []

    def will_need(self, descriptor: Descriptor, position: int, size: int) -> None:
        self.wanted.append((descriptor.path.name, position))

    def dont_need(self, descriptor: Descriptor, position: int, size: int) -> None:
        self.dropped.append((descriptor.path.name, position, size))


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_advice, "READ_AHEAD_BYTES", 8 * PAGE)
    monkeypatch.setattr(read_advice, "KEPT_BEHIND_BYTES", 16 * PAGE)
    monkeypatch.setattr(read_advice, "_STEP_BYTES", 4 * PAGE)


def walk(folder: Path, *, cold: bool) -> ToldFilesystem:
    fs = ToldFilesystem()
    pages = ReadAdvice(fs, cold=cold)
    for name in ("first", "second"):
        view = memoryview(fs.map(fs.create_file(folder / name, SIZE), SIZE, writable=True))
        for position in range(PAGE, SIZE + 1, PAGE):
            pages.moved_to(folder / name, view, position)
    pages.finish()
    return fs


def test_a_cold_walk_drops_every_page_once(tmp_path: Path) -> None:
    ranges = walk(tmp_path, cold=True).dropped
    for name in ("first", "second"):
        mine = [(position, size) for file, position, size in ranges if file == name]
        assert [position for position, _ in mine] == [0, *[at + size for at, size in mine[:-1]]]
        assert sum(size for _, size in mine) == SIZE


def test_a_cold_walk_keeps_what_lies_close_behind_it(tmp_path: Path) -> None:
    first = walk(tmp_path, cold=True).dropped[0]
    assert first[2] <= SIZE - 16 * PAGE


def test_a_warm_walk_drops_nothing_and_reads_ahead(tmp_path: Path) -> None:
    fs = walk(tmp_path, cold=False)
    assert not fs.dropped
    assert {name for name, _ in fs.wanted} == {"first", "second"}


def test_a_cold_walk_keeps_what_lies_close_behind_it_in_the_file_before(tmp_path: Path) -> None:
    fs = ToldFilesystem()
    pages = ReadAdvice(fs, cold=True)
    views = [memoryview(fs.map(fs.create_file(tmp_path / name, SIZE), SIZE, writable=True)) for name in ("a", "b")]
    for position in (SIZE // 2, SIZE):
        pages.moved_to(tmp_path / "a", views[0], position)
    pages.moved_to(tmp_path / "b", views[1], 4 * PAGE)
    assert sum(size for _, _, size in fs.dropped) <= SIZE - 12 * PAGE
    pages.moved_to(tmp_path / "b", views[1], 20 * PAGE)
    assert sum(size for name, _, size in fs.dropped if name == "a") == SIZE
