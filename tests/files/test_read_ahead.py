"""Pages are read in ahead of a walk: no more than a share, no hole, and no further than can be read."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest

from store.errors import StoreIOError
from store.files import read_ahead
from store.files.filesystem import Filesystem
from store.files.pace import Pace
from store.files.read_ahead import ReadAhead

STEP, AHEAD, SIZE = 10, 40, 200
LIMIT_S = 30


class Pages:
    """SIZE bytes; from `hole` on nothing was written, from `bad` on nothing can be read.

    awaited  the position that `wait` waits for
    """

    def __init__(self, *, hole: int = SIZE, bad: int = SIZE, awaited: int = 0) -> None:
        self.hole, self.bad, self.awaited = hole, bad, awaited
        self.read: list[tuple[int, int]] = []
        self._has_come = Event()

    def readable_end(self, start: int, stop: int) -> int:
        self.read.append((start, stop))
        if stop >= self.awaited:
            self._has_come.set()
        return min(stop, max(self.bad, start))

    def next_written(self, position: int) -> int:
        return position if position < self.hole else SIZE

    def wait(self) -> None:
        """Waits until the awaited position was read."""
        assert self._has_come.wait(LIMIT_S)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "_STEP_BYTES", STEP)
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES", AHEAD)
    monkeypatch.setattr(ReadAhead, "_walks", set())


@pytest.fixture
def limited() -> Iterator[None]:
    before = Filesystem.pace
    Filesystem.pace = Pace(1 << 20)
    yield
    Filesystem.pace = before


def test_what_is_asked_for_is_read_once_and_in_order() -> None:
    pages = Pages()
    ahead = ReadAhead(pages, 0, SIZE)
    assert [ahead.until(stop) for stop in (5, 60, 61, SIZE)] == [5, 60, 61, SIZE]
    ahead.close()
    starts, stops = zip(*pages.read, strict=True)
    assert (starts, stops[-1]) == ((0, *stops[:-1]), SIZE)


def test_no_more_than_the_share_is_read_ahead() -> None:
    pages = Pages(awaited=20 + AHEAD)
    ahead = ReadAhead(pages, 0, SIZE)
    ahead.until(20)
    pages.wait()
    ahead.close()
    assert pages.read[-1][1] == 20 + AHEAD
    # No step is empty: a thread without room waits.
    assert [(start, stop) for start, stop in pages.read if start >= stop] == []


def test_walks_side_by_side_share_what_is_read_ahead() -> None:
    first = ReadAhead(Pages(awaited=AHEAD), 0, SIZE)
    pages = Pages(awaited=20 + AHEAD // 2)
    second = ReadAhead(pages, 0, SIZE)
    second.until(20)
    pages.wait()
    first.close()
    second.close()
    assert pages.read[-1][1] == 20 + AHEAD // 2


def test_a_walk_that_ends_gives_its_share_to_the_others() -> None:
    ReadAhead(Pages(), 0, SIZE).close()
    pages = Pages(awaited=20 + AHEAD)
    ahead = ReadAhead(pages, 0, SIZE)
    ahead.until(20)
    pages.wait()
    ahead.close()
    assert pages.read[-1][1] == 20 + AHEAD


def test_a_hole_is_read_only_where_it_is_asked_for() -> None:
    pages = Pages(hole=30)
    ahead = ReadAhead(pages, 0, SIZE)
    assert ahead.until(35) == 35
    ahead.close()
    assert pages.read[-1][1] == 35


def test_the_end_of_what_can_be_read_is_given_and_nothing_behind_it_is_tried() -> None:
    pages = Pages(bad=33)
    ahead = ReadAhead(pages, 0, SIZE)
    assert [ahead.until(stop) for stop in (20, 50, 60)] == [20, 33, 33]
    ahead.close()
    assert max(pages.read)[0] < 33


def test_an_error_reaches_the_walk_when_it_comes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    # From there on only what is asked for is read, so the walk waits for the error.
    pages = Pages(hole=50)
    read = pages.readable_end

    def fail_at_50(start: int, stop: int) -> int:
        if start >= 50:
            raise StoreIOError("cannot read", file="log")
        return read(start, stop)

    monkeypatch.setattr(pages, "readable_end", fail_at_50)
    ahead = ReadAhead(pages, 0, SIZE)
    assert ahead.until(50) == 50
    with pytest.raises(StoreIOError):
        ahead.until(51)
    ahead.close()


def test_a_file_deleted_meanwhile_is_not_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(position: int) -> int:
        raise StoreIOError("no such file", file="log")

    pages = Pages()
    monkeypatch.setattr(pages, "next_written", fail)
    ahead = ReadAhead(pages, 0, SIZE)
    assert ahead.until(25) == 25
    ahead.close()
    assert pages.read[-1][1] == 25


def test_a_process_that_may_only_read_slowly_reads_nothing_ahead(limited: None) -> None:
    assert ReadAhead.of(Pages(), 0, SIZE) is None
