"""Bounds of a live store's services: the disk's shares, who is told of what, and what a refused queue keeps."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from store import Message, open_store
from store.engine.live import service
from store.engine.live.arrivals import Arrivals
from store.engine.live.disk_check import DiskCheckService
from store.engine.live.group_commit import GROUP_INTERVAL_MS, GroupCommitService
from store.engine.live.hold import PullRequestHoldService
from store.engine.live.reput import ReputMessageService, RetriedIndex, RetriedQueues
from store.engine.live.running_flags import RunningFlag, RunningFlags
from store.engine.live.self_check import self_check_task
from store.engine.live.service import note_flushed
from store.engine.live.services import StoreServices
from store.errors import StoreIOError
from store.formats.checkpoint_page import decode_checkpoint
from tests.support.devices import FullDisk
from tests.support.stores import SMALL, text_message
from tests.support.times import set_time


def test_the_disk_is_looked_at_every_ten_seconds() -> None:
    looks: list[int] = []
    service = DiskCheckService(lambda: looks.append(1))
    assert service._interval_seconds == 10
    service.work()
    assert looks == [1]


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


def test_bits_and_times_are_the_brokers() -> None:
    assert [flag.value for flag in RunningFlag] == [1, 2, 4, 8, 16, 32, 64]
    opened: Any = None
    task = self_check_task(opened)
    assert (task.first_ms, task.period_ms, GROUP_INTERVAL_MS) == (60_000, 600_000, 10)
    assert PullRequestHoldService(lambda topic, queue_id: 0)._interval_seconds == 5


@pytest.mark.parametrize("kind", ["dispatch", "put_units"])
def test_a_queue_is_tried_thirty_times(kind: str) -> None:
    calls: list[object] = []

    def refuse(*_: object) -> None:
        calls.append(None)
        raise StoreIOError("no space")

    flags = RunningFlags()
    store: Any = SimpleNamespace(dispatch=refuse, put_units=refuse)
    queues = RetriedQueues(store, 0, flags=flags)
    run: Any = None
    with pytest.raises(StoreIOError):
        queues.dispatch(run) if kind == "dispatch" else queues.put_units(run, np.zeros(1, np.int64))
    assert (len(calls), flags.refusal) == (30, "a queue cannot be written: no space")
    assert queues.describe_findings() == ["a queue cannot be written, and is tried again: no space"]
    store.dispatch = lambda run: None
    queues.dispatch(run)
    assert (flags.refusal, queues.describe_findings()) == ("", [])


def test_an_index_file_is_tried_three_times_a_second_apart() -> None:
    index: Any = SimpleNamespace()
    RetriedIndex(index)
    assert index.creation_pauses_s == (1.0, 1.0)


@pytest.mark.parametrize(
    ("has_failed", "behind", "calls"), [(False, 9, 1), (False, 1, 1), (False, 0, 0), (False, -1, 0), (True, 9, 0)]
)
def test_dispatch_works_while_something_is_behind_and_nothing_has_failed(
    has_failed: bool, behind: int, calls: int
) -> None:
    dispatcher: Any = SimpleNamespace(behind_bytes=behind, log_offset=7, count=0)

    def catch_up() -> int:
        dispatcher.count += 1
        dispatcher.behind_bytes = 0
        return 0

    dispatcher.catch_up = catch_up
    told: list[int] = []
    for step in (ReputMessageService.work, ReputMessageService.last_work):
        dispatcher.behind_bytes, dispatcher.count = behind, 0
        service = ReputMessageService(dispatcher, told.append)
        service.failure = ValueError() if has_failed else None
        step(service)
        assert dispatcher.count == calls
    assert told == [7] * calls


def arrival(next_offset: int, queue_id: int = 0) -> Any:
    return SimpleNamespace(topic="T", queue_id=queue_id, next_offset=next_offset, tags_code=3, properties={"a": "b"})


class Filter:
    """Lets tags and properties through, or not."""

    def __init__(self, tags: bool, properties: bool) -> None:
        self.tags, self.properties = tags, properties

    def matches_tags_code(self, tags_code: int) -> bool:
        return self.tags and tags_code == 3

    def matches_properties(self, properties: Any) -> bool:
        return self.properties and properties == {"a": "b"}


@pytest.mark.parametrize("message_filter", [None, Filter(True, True), Filter(False, True), Filter(True, False)])
@pytest.mark.parametrize(
    ("next_offset", "end", "asked", "is_woken"),
    [(6, 0, 1, True), (5, 6, 2, True), (5, 5, 2, False), (4, 5, 2, False), (4, 6, 2, True)],
)
def test_a_get_is_woken_by_a_message_behind_its_offset_that_it_wants(
    next_offset: int, end: int, asked: int, is_woken: bool, message_filter: Filter | None
) -> None:
    calls: list[tuple[str, int]] = []

    def max_offset(topic: str, queue_id: int) -> int:
        calls.append((topic, queue_id))
        if len(calls) == 1:
            # The get has been taken, and looks once itself.
            service.arriving(arrival(99, queue_id=1))
            assert (calls, service.held_count) == ([("T", 0)], 1)
            service.arriving(arrival(next_offset))
            return 5
        return end

    service = PullRequestHoldService(max_offset)
    wants = message_filter is None or (message_filter.tags and message_filter.properties)
    assert service.hold("T", 0, 5, 1, message_filter) is (is_woken and wants)
    assert (len(calls), service.held_count, dict(service._held)) == (asked, 0, {})


@pytest.mark.parametrize(("end", "is_woken"), [(4, False), (5, False), (6, True)])
def test_a_sweep_wakes_whose_queue_has_grown(end: int, is_woken: bool) -> None:
    ends = [0, end]

    def max_offset(topic: str, queue_id: int) -> int:
        if len(ends) == 2:
            ends.pop(0)
            service.work()
            return 5
        return ends[0]

    service = PullRequestHoldService(max_offset)
    assert service.hold("T", 0, 5, 1) is is_woken
    assert PullRequestHoldService(lambda topic, queue_id: 6).hold("T", 0, 5, 60_000)


def test_no_get_is_held_when_the_service_has_ended() -> None:
    service = PullRequestHoldService(lambda topic, queue_id: service.release() or 5)  # type: ignore[func-returns-value]
    assert not service.hold("T", 0, 5, 60_000)
    service = PullRequestHoldService(lambda topic, queue_id: 9)
    service.last_work()
    assert not service.hold("T", 0, 5, 60_000)


@pytest.mark.parametrize(("compat", "has_process"), [("4.9", False), ("5.3", True)])
def test_a_store_has_an_abort_marker_while_it_is_open_in_5x_with_the_process(
    compat: str, has_process: bool, tmp_path: Path
) -> None:
    with open_store(tmp_path / "s", read_only=False, settings=SMALL, compat=compat):
        assert (tmp_path / "s" / "abort").read_text() == (str(os.getpid()) if has_process else "")
    assert not (tmp_path / "s" / "abort").exists()


@pytest.mark.parametrize(
    ("compat", "topic", "marked"),
    [("4.9", "T", 0), ("5.3", "T", 0), ("5.5", "T", 2), ("5.5", "RMQ_SYS_TRANS_HALF_TOPIC", 2)],
)
def test_a_flush_of_5_5_marks_the_last_record_with_a_queue_unit(
    compat: str, topic: str, marked: int, tmp_path: Path
) -> None:
    with open_store(tmp_path / "s", read_only=False, settings=SMALL, compat=compat) as store:
        places = [0, *(store.put(text_message(number, topic)).log_offset for number in (1, 2))]
    assert decode_checkpoint((tmp_path / "s" / "checkpoint").read_bytes()).logics_log_offset == places[marked]


def test_a_start_that_fails_ends_every_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    def note(services: StoreServices) -> None:
        started.append(services)

    def fail(ha: object) -> None:
        raise StoreIOError("no port")

    monkeypatch.setattr(StoreServices, "check_disk", note)
    monkeypatch.setattr("store.engine.ha.service.HAService.start", fail)
    with pytest.raises(StoreIOError, match="no port"):
        open_store(tmp_path / "s", read_only=False, settings=SMALL)
    services = started[0]
    assert len(services.threads) == 4
    assert not any(thread._thread.is_alive() for thread in services.threads)


def test_a_flush_makes_the_last_page_of_every_file_durable(tmp_path: Path) -> None:
    settings = {**SMALL, "flushIntervalConsumeQueue": 3_600_000, "flushIntervalCommitLog": 3_600_000}
    with open_store(tmp_path / "s", read_only=False, settings=settings) as store:
        for number in range(3):
            store.put(Message("T", b"x", queue_id=number))
        store.catch_up()
        assert store.flush() == store.max_log_offset
        queues = list(store.opened.queues.awake())
        assert len(queues) == 3
        assert all(file.flushed == file.wrote > 0 for queue in queues for file in queue.files.files)
        checkpoint = store.opened.checkpoint
        times = store.opened.queues.last_store_timestamp_ms, store.opened.log.segments.store_timestamp_ms
        assert (checkpoint.logics_ms, checkpoint.physic_ms) == times


def test_a_queue_is_tried_again_after_its_pause() -> None:
    paused: list[float] = []

    def refuse(run: object) -> None:
        raise StoreIOError("no space")

    run: Any = None
    queues = RetriedQueues(SimpleNamespace(dispatch=refuse), 7)  # type: ignore[arg-type]
    queues._stopping = SimpleNamespace(is_set=lambda: False, wait=paused.append)  # type: ignore[assignment]
    with pytest.raises(StoreIOError):
        queues.dispatch(run)
    assert paused == [7] * 29
    paused.clear()
    calls: list[int] = []
    log: Any = SimpleNamespace(dispatch=lambda run: calls.append(1) or (refuse(run) if len(calls) < 3 else None))
    queues._queues = log
    queues.dispatch(run)
    assert (paused, len(calls)) == ([7] * 2, 3)


def test_milliseconds_are_millions_of_nanoseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    set_time(monkeypatch, service, monotonic_ns=lambda: 5_000_000_000_000)
    assert service.monotonic_ms() == 5_000_000


@pytest.mark.parametrize("with_pool", [False, True])
def test_a_flush_waits_for_lent_buffers_and_a_stop_for_replication(
    with_pool: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[str] = []
    settings = {**SMALL, "transientStorePoolEnable": with_pool, "transientStorePoolSize": 2}
    with open_store(tmp_path / "s", read_only=False, settings=settings) as store:
        monkeypatch.setattr(store._services.ha, "stop", lambda: stops.append("replication"))
        store.put(Message("T", b"x"))
        assert [store.flush(), store.flush()] == [store.max_log_offset] * 2
        assert store.max_log_offset > 0
    assert stops == ["replication"]


@pytest.mark.parametrize("group", [-1, 100])
def test_requests_under_way_are_flushed_when_the_store_closes(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.engine.live.group_commit.LAST_GATHERING_SECONDS", 0)
    calls: list[str] = []
    takes = [group, -1]

    def flush_groups(groups: object) -> bool:
        calls.append("groups")
        return True

    segments: Any = SimpleNamespace(
        flush=lambda pages: calls.append(f"flush {pages}"), flush_groups=flush_groups, store_timestamp_ms=9
    )
    checkpoint: Any = SimpleNamespace(physic_ms=0)
    commit = GroupCommitService(segments, checkpoint)
    commit._groups = SimpleNamespace(take=lambda: takes.pop(0), close=lambda: calls.append("close"))
    commit.last_work()
    assert calls == ["close", "groups" if group >= 0 else "flush 0"]
    assert checkpoint.physic_ms == (9 if group >= 0 else 0)
