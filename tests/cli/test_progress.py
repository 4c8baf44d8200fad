"""The progress bar: when it appears, its rate, and that each long command knows how much there is to do."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rmqctl import progress
from rmqctl.progress import APPEARS_AFTER_S, LEAST_WORK_S, Opening, Progress
from tests.cli.running import Text, rmqctl
from tests.support.golden import copy_store, golden
from tests.support.stores import make_store
from tests.support.threads import eventually
from tests.support.times import set_time


def test_the_bar_appears_after_half_a_second_without_a_report() -> None:
    stream = Text(True)
    with Progress("searching", 10, "bytes", stream):
        assert stream.written == b""
        assert eventually(lambda: b"searching" in stream.written and b"0%" in stream.written)


@pytest.mark.parametrize(
    ("passed", "delay"),
    [(0, APPEARS_AFTER_S), (0.2, 0.3), (0.4, LEAST_WORK_S), (0.5, LEAST_WORK_S), (60, LEAST_WORK_S)],
)
def test_the_half_second_of_a_bar_begins_with_the_command(
    passed: float, delay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_time(monkeypatch, progress, monotonic=lambda: 100.0)
    bar = Progress("searching", 10, "bytes", Text(True), since=100.0 - passed)
    assert bar._timer is not None
    assert bar._timer.interval == pytest.approx(delay)


class Moments:
    """Stands for the event of Opening, without a wait: over at the given one."""

    def __init__(self, last: int) -> None:
        self.waits: list[float] = []
        self._last = last

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return len(self.waits) > self._last


@pytest.mark.parametrize(
    ("last", "written", "waits"),
    [
        (0, "", [APPEARS_AFTER_S]),
        (1, "\ropening the store\r\x1b[K", [APPEARS_AFTER_S, 1]),
        (3, "\ropening the store\ropening the store, 1 s\ropening the store, 2 s\r\x1b[K", [APPEARS_AFTER_S, 1, 1, 1]),
    ],
)
def test_a_line_counts_seconds_until_the_first_bar(last: int, written: str, waits: list[float]) -> None:
    stream, moments = Text(True), Moments(last)
    opening = Opening(Text(True))
    opening.end()
    vars(opening).update(_stream=stream, _is_over=moments)
    opening._run()
    assert (stream.written.decode(), moments.waits) == (written, waits)


def test_the_line_is_cleared_before_the_bar_appears() -> None:
    stream = Text(True)
    with Progress("searching", 10, "bytes", stream, clear=lambda: print("cleared", file=stream)) as bar:
        bar._draw()
    assert stream.written.startswith(b"cleared\n")


@pytest.mark.parametrize(
    ("line", "terminal", "shown"),
    [
        ("info", True, True),
        ("--no-progress info", True, False),
        ("--quiet info", True, False),
        ("info", False, False),
        ("get TopicA", True, False),
    ],
)
def test_a_long_command_begins_with_the_line_and_ends_it_before_its_result(
    line: str, terminal: bool, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shown:
        def __init__(self, stream: Text) -> None:
            self._stream = stream
            stream.write("opening")

        def end(self) -> None:
            self._stream.write(" ended")

    monkeypatch.setattr(progress, "Opening", Shown)
    run = rmqctl(*line.split(), store=golden("normal").store, terminal=terminal)
    assert run.err.startswith("opening ended") is shown
    assert run.err.count("ended") == shown


@pytest.mark.parametrize("shown", [True, False])
def test_quick_work_and_a_pipe_have_no_bar(shown: bool) -> None:
    stream = Text(True)
    with Progress("searching", 10, "bytes", stream if shown else None) as bar:
        bar.update(10)
    assert stream.written == b""


@pytest.mark.parametrize(
    ("passed", "done", "total", "unit", "rate", "remaining"),
    [
        (2, 0, 100, "bytes", "2 s", ""),
        (2, 50, None, "bytes", "25 B/s", "-:--:--"),
        (2, 50, 100, "bytes", "25 B/s", "0:00:02"),
        (2, 100, 100, "steps", "50 steps/s", "0:00:00"),
        (60, 1 << 30, 123 << 30, "bytes", "17.1 MiB/s", "2:02:00"),
        (3599, 1, 2, "steps", "0 steps/s", "0:59:59"),
        (61, 1, 2, "steps", "0 steps/s", "0:01:01"),
        (2, 120, 100, "steps", "60 steps/s", "0:00:00"),
        (1.9, 0, None, "bytes", "1 s", ""),
        # All at once, in the moment in which the bar begins: from the beginning of the work, and not 600 GB/s.
        (1, 1 << 30, 1 << 30, "bytes", "1.0 GiB/s", "0:00:00"),
    ],
)
def test_rate_and_time_to_go_are_of_the_whole_work(
    passed: int, done: int, total: int | None, unit: str, rate: str, remaining: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    set_time(monkeypatch, progress, monotonic=lambda: now[0])
    bar = Progress("searching", total, unit, None)
    bar.update(done)
    now[0] += passed
    assert (bar.rate, bar.remaining) == (rate, remaining)


def test_a_bar_is_drawn_when_half_a_second_has_passed_and_each_tenth_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now, drawn = [100.0], list[tuple[float, int, int]]()
    set_time(monkeypatch, progress, monotonic=lambda: now[0])
    shown = SimpleNamespace(update=lambda task, **bar: drawn.append((now[0], bar["completed"], bar["total"])))
    monkeypatch.setattr(Progress, "_start", lambda bar: setattr(bar, "_bar", shown))
    bar = Progress("searching", 10, "bytes", Text(True))
    for now[0], done, total in ((100.49, 1, None), (100.5, 2, None), (100.59, 3, None), (100.61, 4, 20)):
        bar.update(done, total)
    bar.advance()
    assert (drawn, bar.done, bar.total) == ([(100.5, 2, 10), (100.61, 4, 20)], 5, 20)


def test_the_end_of_the_work_removes_the_bar_and_draws_no_other() -> None:
    stream = Text(True)
    with Progress("searching", 10, "bytes", stream) as bar:
        bar._draw()
        assert b"\x1b[?25h" not in stream.written
    assert bar._timer is not None
    assert (bar._timer.finished.is_set(), b"\x1b[?25h" in stream.written) == (True, True)
    before = stream.written
    bar._draw()
    assert stream.written == before


Reports = dict[str, list[tuple[int, int | None]]]


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Reports:
    """What each bar is told: bytes done, and in all."""
    seen: Reports = {}

    def update(self: Progress, done: int, total: int | None = None) -> None:
        self.done = done
        self.total = total if total is not None else self.total
        seen.setdefault(self.title, []).append((self.done, self.total))

    monkeypatch.setattr(Progress, "update", update)
    return seen


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("put --from lines.jsonl TopicA", "putting"),
        ("rebuild --dry-run", "rebuilding"),
        ("salvage --to new", "reading the log"),
        ("find order5 --scan", "searching the log"),
        ("check", "checking"),
    ],
)
def test_long_work_knows_how_much_there_is_to_do(
    line: str, title: str, reports: Reports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copy_store(golden("normal").store, tmp_path / "store")
    Path("lines.jsonl").write_text('{"body_text": "one"}\n{"body_text": "two"}\n', encoding="utf-8")
    run = rmqctl("--quiet", *line.split(), store=tmp_path / "store")
    assert run.code == 0, run.err
    assert title in reports, reports
    done, total = reports[title][-1]
    assert total is not None
    assert 0 < done <= total


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("find order5 --scan", "searching the log"),
        ("rebuild --dry-run", "rebuilding"),
        ("rebuild topics --dry-run", "reading the log"),
        ("timeline", "reading the log"),
        ("usage", "querying"),
    ],
)
def test_the_hole_at_the_logs_end_is_no_work(line: str, title: str, reports: Reports, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 30, mappedFileSizeCommitLog=1 << 24)
    rmqctl("--quiet", *line.split(), store=root)
    done, total = reports[title][-1]
    assert total is not None
    # A reader maps some of the hole.
    assert 0 < done <= total < 1 << 22


@pytest.mark.parametrize(("line", "title"), [("check", "checking"), ("salvage", "reading the log")])
def test_the_work_on_one_segment_is_known_before_it_begins_and_reported_in_the_middle(
    line: str, title: str, reports: Reports, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", 30)
    [segment] = (root / "commitlog").iterdir()
    assert rmqctl("--quiet", line, store=root).code == 0
    [(none, total), *between, last] = reports[title]
    assert (none, last) == (0, (total, total))
    assert {one for _, one in between} == {total}
    assert total is not None
    assert 0 < between[0][0] <= total <= segment.stat().st_size


def test_the_line_is_cleared_once_the_opening_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqctl.progress.APPEARS_AFTER_S", 0)

    class Slow(Text):
        def write(self, text: str) -> int:
            time.sleep(0.05)
            return super().write(text)

    stream = Slow(True)
    opening = Opening(stream)
    assert eventually(lambda: stream.written)
    opening.end()
    assert stream.written.endswith(b"\r\x1b[K")
