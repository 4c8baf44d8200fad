"""A pace waits before bytes are read, and gives back what is far enough behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.disk.filesystem import Filesystem
from store.disk.pace import WINDOW_WORTH_BYTES, Pace, Window

KIB = 1 << 10
WINDOW = WINDOW_WORTH_BYTES


def window(number: int, size: int = WINDOW) -> Window:
    return Window(Path("log"), memoryview(b""), number * size, (number + 1) * size)


@pytest.fixture
def paced() -> Iterator[type[Filesystem]]:
    before = Filesystem.pace
    yield Filesystem
    Filesystem.pace = before


def test_a_pace_without_limits_neither_waits_nor_gives_back() -> None:
    pace, began = Pace(), time.monotonic()
    pace.wait_for(1 << 40)
    assert time.monotonic() - began < 0.1
    assert [pace.passed(window(number)) for number in range(3)] == [[], [], []]


def test_a_limited_pace_takes_the_time_that_its_rate_asks_for() -> None:
    pace, began = Pace(1 << 20), time.monotonic()
    for _ in range(4):
        pace.wait_for(50 * KIB)
    assert 0.15 < time.monotonic() - began < 5


def test_windows_behind_the_kept_bytes_are_given_back_oldest_first() -> None:
    pace = Pace(kept_bytes=2 * WINDOW)
    assert [pace.passed(window(number)) for number in range(4)] == [[], [], [window(0)], [window(1)]]
    assert pace.finish() == [window(2), window(3)]
    assert pace.finish() == []


def test_a_look_at_a_few_pages_is_no_window() -> None:
    pace = Pace(kept_bytes=0)
    assert pace.passed(window(0, 4 * KIB)) == []
    assert pace.passed(window(0)) == [window(0)]


@pytest.mark.parametrize("rate", [None, float(1 << 30)])
def test_bytes_read_at_a_pace_are_there_and_stay_right_when_they_were_given_back(
    tmp_path: Path, paced: type[Filesystem], rate: float | None
) -> None:
    data = bytes(range(256)) * (16 * WINDOW // 256)
    (tmp_path / "log").write_bytes(data)
    fs, paced.pace = Filesystem(), Pace(rate, kept_bytes=WINDOW, is_cold=True)
    view = fs.map(fs.open_read(tmp_path / "log"), len(data), writable=False)
    for start in range(0, len(data), WINDOW):
        assert fs.populate(tmp_path / "log", view, start, start + WINDOW)
    fs.finish_pace()
    assert bytes(view) == data
