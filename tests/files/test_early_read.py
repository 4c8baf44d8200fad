"""What a command walks first is read early: in order, no hole, so much at most, and no error that is not the walk's."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from store.errors import StoreIOError
from store.files import early_read
from store.files.early_read import EarlyRead
from store.files.filesystem import Descriptor, Filesystem

PAGE, LIMIT_S = 4096, 30


class Reads(Filesystem):
    """Notes what is read in, as (name, start, stop); after `awaited` reads, or an error, `has_come` is set."""

    def __init__(self, awaited: int, *, cached: str = "", fails: bool = False) -> None:
        self.awaited, self.cached, self.fails = awaited, cached, fails
        self.read: list[tuple[str, int, int]] = []
        self.has_come = Event()

    def is_cached(self, descriptor: Descriptor, position: int) -> bool:
        return descriptor.path.name == self.cached

    def read_in(self, descriptor: Descriptor, position: int, size: int) -> int:
        self.read.append((descriptor.path.name, position, position + size))
        if len(self.read) == self.awaited:
            self.has_come.set()
        if self.fails:
            raise StoreIOError("no", file=descriptor.path)
        return size


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files a, b and c of three pages, of which the middle one is a hole where the file system has holes."""
    for name in "cab":
        with (tmp_path / name).open("wb") as file:
            file.write(b"x" * PAGE)
            file.seek(2 * PAGE)
            file.write(b"x" * PAGE)
    return tmp_path


def read_of(folder: Path, awaited: int, **options: Any) -> list[tuple[str, int, int]]:
    newest = options.pop("newest", None)
    fs = Reads(awaited, **options)
    reader = EarlyRead([folder / "absent", folder], newest, fs)
    assert fs.has_come.wait(LIMIT_S)
    reader.close()
    return fs.read


def ranges(folder: Path, names: str) -> list[tuple[str, int, int]]:
    return [(name, *found) for name in names for found in Filesystem().written_ranges(folder / name, 0)]


def test_what_was_written_is_read_in_order_of_the_names_without_the_holes(folder: Path) -> None:
    wanted = ranges(folder, "abc")
    assert read_of(folder, len(wanted)) == wanted


def test_of_the_newest_files_alone(folder: Path) -> None:
    wanted = ranges(folder, "bc")
    assert read_of(folder, len(wanted), newest=2) == wanted


def test_what_begins_in_the_page_cache_is_passed_over(folder: Path) -> None:
    wanted = ranges(folder, "bc")
    assert read_of(folder, len(wanted), cached="a") == wanted


def test_no_more_than_a_share_is_read_by_growing_steps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_read, "MOST_BYTES", 3000)
    monkeypatch.setattr(early_read, "_FIRST_STEP_BYTES", 1000)
    monkeypatch.setattr(early_read, "_SHORT_STEP_S", LIMIT_S)
    assert read_of(folder, 2) == [("a", 0, 1000), ("a", 1000, 3000)]


def test_the_first_error_ends_it_without_a_word(folder: Path) -> None:
    assert read_of(folder, 1, fails=True) == ranges(folder, "a")[:1]


def test_the_kernel_reads_the_range_that_is_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = Filesystem()
    descriptor = fs.open_read(folder / "a")
    assert fs.read_in(descriptor, PAGE, 10 * PAGE) in (2 * PAGE, 0)
    assert fs.is_cached(descriptor, 0) in (True, False)
    monkeypatch.delattr(os, "RWF_NOWAIT", raising=False)
    assert not fs.is_cached(descriptor, 0)


@pytest.mark.parametrize(
    ("short_s", "steps"),
    [(LIMIT_S, [1000, 2000, 2500, 2500, 1288]), (0, [1000] * 9 + [288])],
    ids=["short steps grow to the most", "long steps stay"],
)
def test_a_step_doubles_up_to_the_most_while_steps_are_short(
    short_s: float, steps: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"x" * sum(steps))
    monkeypatch.setattr(early_read, "LONGEST_S", LIMIT_S)
    monkeypatch.setattr(early_read, "_FIRST_STEP_BYTES", 1000)
    monkeypatch.setattr(early_read, "_MOST_STEP_BYTES", 2500)
    monkeypatch.setattr(early_read, "_SHORT_STEP_S", short_s)
    assert [stop - start for _, start, stop in read_of(tmp_path, len(steps))] == steps
