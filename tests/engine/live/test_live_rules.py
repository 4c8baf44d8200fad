"""Bounds of a live store's services: the disk's shares, who is told of what, and what a refused queue keeps."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from store import open_store
from store.engine.live.arrivals import Arrivals
from store.engine.live.disk_check import DiskCheckService
from store.engine.live.reput import RetriedIndex, RetriedQueues
from store.engine.live.running_flags import RunningFlag, RunningFlags
from store.engine.live.service import note_flushed
from store.engine.live.services import StoreServices
from store.errors import StoreIOError
from tests.support.devices import FullDisk
from tests.support.stores import SMALL


def test_the_disk_is_looked_at_every_ten_seconds() -> None:
    assert DiskCheckService(lambda: None)._interval_seconds == 10


@pytest.mark.parametrize(("store_time_ms", "physic_ms"), [(0, 7), (1, 1), (8, 8)])
def test_a_store_time_is_noted_behind_the_first_thorough_flush(store_time_ms: int, physic_ms: int) -> None:
    segments: Any = SimpleNamespace(store_timestamp_ms=store_time_ms)
    checkpoint: Any = SimpleNamespace(physic_ms=7)
    note_flushed(segments, checkpoint)
    assert checkpoint.physic_ms == physic_ms


@pytest.mark.parametrize(
    ("used", "is_refusing", "is_full"),
    [(0.85, False, False), (0.851, False, True), (0.9, False, True), (0.901, True, True), (0.2, False, False)],
)
def test_a_disk_refuses_above_its_limits_and_takes_again_below(
    used: float, is_refusing: bool, is_full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**SMALL, "diskSpaceWarningLevelRatio": 90, "diskSpaceCleanForciblyRatio": 85}
    with open_store(tmp_path / "store", read_only=False, settings=settings, fs=FullDisk(0.1)) as store:
        services, folders = store._services, store.opened.log.segments.folders
        for share, expected in (used, (is_refusing, is_full)), (0.1, (False, False)):
            monkeypatch.setattr(store.opened.fs, "used_ratio", lambda folder, share=share: share)
            services.check_disk()
            assert (RunningFlag.DISK_FULL in store.flags, bool(folders.full)) == expected


@pytest.mark.parametrize(
    ("pool", "notes", "free"), [(None, [], 0), ((None, 2), [], 2), (("no memory", 5), ["no memory"], 5)]
)
def test_a_pool_is_told_of_where_there_is_one(pool: tuple[Any, int] | None, notes: list[str], free: int) -> None:
    given = None if pool is None else SimpleNamespace(note=pool[0], available_count=pool[1])
    services: Any = SimpleNamespace(_pool=given)
    notes_of, free_of = StoreServices.notes.fget, StoreServices.free_buffer_count.fget  # type: ignore[attr-defined]
    assert (notes_of(services), free_of(services)) == (notes, free)


@pytest.mark.parametrize(("done_to", "told"), [(99, []), (100, []), (101, [100]), (200, [100]), (201, [100, 200])])
def test_runs_before_the_end_of_dispatch_are_told_of(
    done_to: int, told: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Arrivals, "__init__", lambda self: None)
        arrivals: Any = Arrivals()  # type: ignore[call-arg]
    heard: list[int] = []
    arrivals._runs = [SimpleNamespace(start=100), SimpleNamespace(start=200)]
    arrivals._listeners = [SimpleNamespace(arriving=heard.append)]
    arrivals._arrivals = lambda run: [run.start]
    arrivals.tell(done_to)
    assert (heard, arrivals._runs) == (told, [])


@pytest.mark.parametrize(
    ("kind", "flag"),
    [(RetriedQueues, RunningFlag.WRITE_LOGICS_QUEUE_ERROR), (RetriedIndex, RunningFlag.WRITE_INDEX_FILE_ERROR)],
)
def test_a_bit_that_another_set_is_not_cleared_by_a_run_that_is_taken(kind: Any, flag: RunningFlag) -> None:
    flags = RunningFlags()
    flags.set(flag)
    kind(SimpleNamespace(dispatch=lambda run: None), 0, flags=flags).dispatch(None)
    assert flag in flags


def test_units_are_put_again_with_the_codes_that_were_given() -> None:
    codes, seen = np.array([1, 2], np.int64), list[list[int]]()

    def put_units(run: object, given: Any) -> None:
        seen.append(given.tolist())
        given[:] = -1
        if len(seen) == 1:
            raise StoreIOError("no space")

    queues: Any = SimpleNamespace(put_units=put_units)
    RetriedQueues(queues, 0).put_units(None, codes)  # type: ignore[arg-type]
    assert (seen, codes.tolist()) == ([[1, 2], [1, 2]], [1, 2])


@pytest.mark.parametrize(("has_listener", "is_silent", "kept"), [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 0)])
def test_runs_are_kept_for_listeners_that_are_told(has_listener: int, is_silent: int, kept: int) -> None:
    arrivals: Any = SimpleNamespace(_listeners=[None] * has_listener, _is_silent=bool(is_silent), _runs=[])
    Arrivals.dispatch(arrivals, None)  # type: ignore[arg-type]
    assert len(arrivals._runs) == kept


def test_the_newest_hundred_failures_of_listeners_are_kept_each_once() -> None:
    arrivals: Any = SimpleNamespace(findings=[])

    def arriving(number: int) -> None:
        raise ValueError(number)

    for number in [*range(102), 101]:
        Arrivals._call(arrivals, SimpleNamespace(arriving=arriving), number)  # type: ignore[arg-type]
    assert arrivals.findings == [f"SimpleNamespace failed: ValueError({number})" for number in range(2, 102)]


def test_a_queue_that_is_refused_while_the_store_closes_is_not_tried_again() -> None:
    calls: list[object] = []

    def refuse(run: object) -> None:
        calls.append(run)
        raise StoreIOError("no space")

    queues = RetriedQueues(SimpleNamespace(dispatch=refuse), 0)  # type: ignore[arg-type]
    queues.stop()
    with pytest.raises(StoreIOError):
        queues.dispatch(None)  # type: ignore[arg-type]
    assert calls == [None]
