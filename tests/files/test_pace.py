"""A pace waits before bytes are read, and gives back what is far enough behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.files import pace
from store.files.filesystem import Filesystem
from store.files.pace import FOLIO_BYTES, WINDOW_WORTH_BYTES, Pace, Window

KIB = 1 << 10
WINDOW = WINDOW_WORTH_BYTES


def window(number: int, size: int = WINDOW) -> Window:
    return Window(Path("log"), memoryview(b""), number * size, (number + 1) * size)


@pytest.fixture
def paced() -> Iterator[type[Filesystem]]:
    before = Filesystem.pace
    yield Filesystem
    Filesystem.pace = before


class Sleeper:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s, self.slept = 1000.0, list[float]()

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Sleeper:
    sleeper = Sleeper()
    monkeypatch.setattr(pace, "time", sleeper)
    return sleeper


def test_a_pace_without_limits_neither_waits_nor_gives_back(time: Sleeper) -> None:
    pace = Pace()
    pace.wait_for(1 << 40)
    assert time.slept == []
    assert [pace.passed(window(number)) for number in range(3)] == [[], [], []]


def test_a_limited_pace_takes_the_time_that_its_rate_asks_for(time: Sleeper) -> None:
    pace = Pace(1 << 20)
    for _ in range(4):
        pace.wait_for(50 * KIB)
    assert sum(time.slept) == pytest.approx(200 / 1024)


def test_what_a_slow_reader_took_longer_for_is_not_waited_for_again(time: Sleeper) -> None:
    pace = Pace(1 << 20)
    for _ in range(4):
        time.now_s += 1
        pace.wait_for(512)
    assert time.slept == []


def test_windows_behind_the_kept_bytes_are_given_back_oldest_first() -> None:
    pace = Pace(kept_bytes=2 * WINDOW)
    assert [pace.passed(window(number)) for number in range(4)] == [[], [], [window(0)], [window(1)]]
    assert pace.finish() == [window(2), window(3)]
    assert pace.finish() == []


@pytest.mark.parametrize(("more", "given"), [(-1, 1), (0, 0), (1, 0)])
def test_a_window_is_given_back_as_soon_as_one_byte_too_many_is_kept(more: int, given: int) -> None:
    pace = Pace(kept_bytes=2 * WINDOW + more)
    assert [len(pace.passed(window(number))) for number in range(2)] == [0, given]


@pytest.mark.parametrize(
    ("kept", "is_cold", "ends"),
    [(None, True, [10, 20]), (0, True, [10, 20]), (10, True, [0, 10]), (11, True, [0, 9]), (10, False, [0, 0])],
)
def test_pages_are_dropped_up_to_the_kept_bytes_before_the_window_s_end(
    kept: int | None, is_cold: bool, ends: list[int]
) -> None:
    pace = Pace(kept_bytes=kept, is_cold=is_cold)
    assert [pace.forgotten_before(window(number, 10)) for number in range(2)] == ends


@pytest.mark.parametrize("number", [0, 9])
def test_a_look_at_a_few_pages_is_no_window(number: int) -> None:
    pace = Pace(kept_bytes=0)
    assert pace.passed(window(number, WINDOW - 1)) == []
    assert pace.passed(window(number)) == [window(number)]


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


def test_pages_are_forgotten_as_far_behind_again_and_at_the_end(
    tmp_path: Path, paced: type[Filesystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, paced.pace, forgotten = Filesystem(), Pace(kept_bytes=WINDOW, is_cold=True), list[tuple[str, int, int]]()
    monkeypatch.setattr(
        Filesystem,
        "dont_need",
        lambda fs, descriptor, position, size: forgotten.append((descriptor.path.name, position, size)),
    )
    for name in ("first", "second"):
        (tmp_path / name).write_bytes(bytes(4 * WINDOW))
        view = fs.map(fs.open_read(tmp_path / name), 4 * WINDOW, writable=False)
        for number in range(4):
            fs.populate(tmp_path / name, view, number * WINDOW, (number + 1) * WINDOW)
    given_back = [("first", 2), ("first", 3), ("first", 4), ("second", 2), ("second", 3)]
    assert forgotten == [(name, 0, (windows - 1) * WINDOW) for name, windows in given_back]
    forgotten.clear()
    fs.finish_pace()
    at_end = 4 * WINDOW + FOLIO_BYTES
    assert forgotten == [("second", 0, 3 * WINDOW), ("first", 0, at_end), ("second", 0, at_end)]
