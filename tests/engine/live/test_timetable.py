"""Timed tasks: when each runs, by an injected clock, and what a failure changes."""

from __future__ import annotations

import errno

import pytest

from store.engine.live.timetable import TimedTask, Timetable
from store.errors import StoreIOError
from tests.support.stores import Clock


def test_a_task_runs_first_after_its_delay_and_then_after_each_period() -> None:
    clock, runs = Clock(), []
    began_ms = clock.now_ms
    table = Timetable([TimedTask("task", lambda: runs.append(clock.now_ms - began_ms), 60, 10)], clock)
    for _ in range(100):
        table.work()
        clock.now_ms += 1
    assert runs == [60, 70, 80, 90]


def test_a_task_that_failed_runs_again_and_says_once_why() -> None:
    clock, runs = Clock(), []

    def fail() -> None:
        runs.append(1)
        raise StoreIOError("no permission")

    table = Timetable([TimedTask("cleaning", fail, 0, 10)], clock)
    for _ in range(3):
        table.work()
        clock.now_ms += 10
    assert len(runs) == 3
    assert table.findings == ["cleaning: no permission"]
    assert table.failure is None


def test_a_task_that_met_too_many_open_files_runs_again_in_the_next_round() -> None:
    clock, runs = Clock(), []

    def fail_once() -> None:
        runs.append(clock.now_ms)
        if len(runs) == 1:
            raise StoreIOError("too many open files", errno=errno.EMFILE)

    table = Timetable([TimedTask("cleaning", fail_once, 0, 10)], clock)
    with pytest.raises(StoreIOError):
        table.work()
    table.work()
    assert (len(runs), table.findings) == (2, [])
