"""The services' own rules, without a disk: which queue's start is moved, when a look is due, and what is remembered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.config import StoreConfig
from store.engine.live import cleaning as live
from store.engine.live.cleaning import (
    CleanCommitLogService,
    CleanConsumeQueueService,
    CorrectLogicOffsetService,
    StoreCleaning,
    needs_correction,
)
from store.engine.live.running_flags import RunningFlag, RunningFlags

LOG_START = 1000


def queue(newest: int, low: int, high: int, *units: int) -> Any:
    """A queue with units at these log offsets, whose newest record is at `newest`."""
    found = [SimpleNamespace(log_offset=one) for one in units]
    return SimpleNamespace(
        max_physic_offset=newest, min_offset=low, max_offset=high, units_from=lambda at: found or None,
        holds_batches=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("of", "log_start", "may_look", "needs"),
    [
        (queue(-1, 0, 5), LOG_START, True, False),
        (queue(999, 0, 5), LOG_START, False, True),
        (queue(999, 5, 5), LOG_START, False, False),
        (queue(1000, 0, 5, 999), LOG_START, False, False),
        (queue(1000, 0, 5, 999, 1000), LOG_START, True, True),
        (queue(1000, 0, 5, 1000), LOG_START, True, False),
        (queue(1000, 0, 5), LOG_START, True, True),
        (queue(1000, 5, 5), LOG_START, True, False),
        (queue(-1, 0, 5, 0), LOG_START, True, False),
        (queue(5, 0, 5, -2), -1, True, False),
    ],
)
def test_a_queue_whose_first_unit_is_before_the_log_is_corrected(
    of: Any, log_start: int, may_look: bool, needs: bool
) -> None:
    assert needs_correction(of, log_start, may_look=may_look) == needs


@pytest.mark.parametrize(("passed_ms", "looks"), [(0, 0), (299_999, 0), (300_000, 1), (300_001, 1)])
def test_a_queue_is_looked_into_every_five_minutes(passed_ms: int, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    corrected: list[Any] = []
    monkeypatch.setattr(live, "delete_expired", lambda of, log_start: corrected.append((of, log_start)))
    batches, plain = queue(2000, 0, 5, 1), queue(2000, 0, 5, 1)
    plain.holds_batches = False
    now = [1_700_000_000_000]
    opened: Any = SimpleNamespace(
        log=SimpleNamespace(min_offset=LOG_START), clock=lambda: now[0], config=StoreConfig(),
        queues=SimpleNamespace(awake=lambda: [plain, batches]),
    )  # fmt: skip
    service = CorrectLogicOffsetService(opened)
    service.run()
    assert corrected == [(batches, LOG_START)]
    now[0] += passed_ms
    service.run()
    assert len(corrected) == 1 + looks


def test_queues_are_cleaned_once_for_each_start_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []
    monkeypatch.setattr(live, "delete_expired", lambda of, log_start: done.append((of, log_start)) or 0)
    log = SimpleNamespace(min_offset=0)
    opened: Any = SimpleNamespace(
        log=log, config=StoreConfig(),
        queues=SimpleNamespace(awake=lambda: ["a", "b"], correct_min_offsets=done.append),
        index=SimpleNamespace(expired_files=lambda start: f"expired {start}", remove=done.append),
    )  # fmt: skip
    service = CleanConsumeQueueService(opened)
    for start in (0, 100, 100, 99, 200):
        log.min_offset = start
        service.run()
    assert done == [
        100, ("a", 100), ("b", 100), "expired 100",
        200, ("a", 200), ("b", 200), "expired 200",
    ]  # fmt: skip


def test_a_stopped_pass_over_queues_ends_behind_the_first_that_had_files(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []
    monkeypatch.setattr(live, "delete_expired", lambda of, _: done.append(of) or int(of != "none"))
    opened: Any = SimpleNamespace(
        log=SimpleNamespace(min_offset=1), config=StoreConfig(),
        queues=SimpleNamespace(awake=lambda: ["none", "a", "b"], correct_min_offsets=lambda _: None),
        index=SimpleNamespace(expired_files=lambda _: [], remove=lambda _: done.append("index")),
    )  # fmt: skip
    service = CleanConsumeQueueService(opened)
    service.stop()
    service.run()
    assert done == ["none", "a"]


def log_service(
    dispatched_to: int = 1 << 40, used: Callable[[str], float] = lambda folder: 0.5, line: BrokerLine = LINE_4_9
) -> tuple[CleanCommitLogService, RunningFlags, list[Any], Any]:
    """The service over folders `a` and `b` of the log and `queues`; the deleted files, and the folders' state."""
    deleted: list[Any] = []
    folders = SimpleNamespace(full=None)
    segments = SimpleNamespace(delete_files=deleted.extend, folders=folders, files=[])
    opened: Any = SimpleNamespace(
        config=StoreConfig(delete_commit_log_files_interval=0), line=line, log=SimpleNamespace(segments=segments),
        fs=SimpleNamespace(used_ratio=used),
        layout=SimpleNamespace(writable_commitlogs=("a", "b"), consumequeue="queues"),
    )  # fmt: skip
    flags = RunningFlags()
    return CleanCommitLogService(opened, flags, lambda: dispatched_to), flags, deleted, folders


def files(count: int) -> deque[Any]:
    path = [SimpleNamespace(name=str(number)) for number in range(count)]
    sizes = [*[100] * (count - 1), 40]
    return deque(
        SimpleNamespace(file_start=100 * number, size=sizes[number], path=path[number]) for number in range(count)
    )


def test_the_names_of_the_newest_hundred_deleted_segments_are_kept() -> None:
    service, _, deleted, _ = log_service()
    assert service._delete(files(102)) == 102
    assert len(deleted) == 102
    assert service.deleted == [str(number) for number in range(2, 102)]


@pytest.mark.parametrize(("dispatched_to", "count"), [(199, 1), (200, 2), (239, 2), (240, 3), (0, 0)])
def test_a_segment_that_is_dispatched_to_its_end_may_go(dispatched_to: int, count: int) -> None:
    service, _, deleted, _ = log_service(dispatched_to)
    assert service._delete(files(3)) == len(deleted) == count


def test_a_stopped_pass_ends_behind_its_first_segment() -> None:
    service, _, deleted, _ = log_service()
    service.stop()
    assert service._delete(files(3)) == len(deleted) == 1


@pytest.mark.parametrize(
    ("line", "a", "b", "queues", "found", "full", "is_flagged"),
    [
        (LINE_4_9, 0.5, 0.6, 0.4, (0.5, 0.4), set(), False),
        (LINE_4_9, 0.86, 0.85, 0.4, (0.85, 0.4), {"a"}, False),
        (LINE_4_9, 0.95, 0.86, 0.4, (0.86, 0.4), {"a", "b"}, False),
        (LINE_4_9, 0.95, 0.91, 0.4, (0.91, 0.4), {"a", "b"}, True),
        (LINE_4_9, 0.0, 0.0, 0.91, (0.0, 0.91), set(), True),
        (LINE_4_9, 0.75, 0.75, 0.91, (0.75, 0.91), set(), True),
        (LINE_4_9, 0.76, 0.76, 0.91, (0.76, 0.91), set(), False),
        (LINE_4_9, -1.0, 0.5, 0.91, (-1.0, 0.91), set(), False),
        (LINE_5_3, 0.75, 0.75, 0.90, (0.75, 0.90), set(), False),
        (LINE_5_3, 0.86, 0.86, 0.91, (0.86, 0.91), {"a", "b"}, False),
    ],
)
def test_the_emptiest_folder_of_the_log_counts_and_then_the_queues(
    line: BrokerLine, a: float, b: float, queues: float, found: tuple[float, float], full: set[str], is_flagged: bool
) -> None:
    used = {"a": a, "b": b, "queues": queues}
    service, flags, _, folders = log_service(used=lambda folder: used[folder], line=line)
    assert service._look_at_space() == found
    assert folders.full == full
    assert (RunningFlag.DISK_FULL in flags) == is_flagged


def test_a_full_disk_is_named_with_its_limit() -> None:
    service, flags, _, _ = log_service(used=lambda folder: 0.914)
    service._look_at_space()
    assert flags.refusal == "the disk is 91% full, diskSpaceWarningLevelRatio is 90"


def test_there_is_a_pause_of_its_milliseconds_between_two_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    service, _, _, _ = log_service()
    service._opened.config = StoreConfig(delete_commit_log_files_interval=250)
    waited: list[float] = []
    monkeypatch.setattr(service._stopping, "wait", waited.append)
    assert service._delete(files(3)) == 3
    assert waited == [0.25, 0.25]


def test_there_is_a_pause_of_its_milliseconds_behind_a_queue_that_had_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "delete_expired", lambda of, _: of)
    opened: Any = SimpleNamespace(
        log=SimpleNamespace(min_offset=1), config=StoreConfig(delete_consume_queue_files_interval=250),
        queues=SimpleNamespace(awake=lambda: [2, 0, 1], correct_min_offsets=lambda _: None),
        index=SimpleNamespace(expired_files=lambda _: [], remove=lambda _: None),
    )  # fmt: skip
    service, waited = CleanConsumeQueueService(opened), list[float]()
    monkeypatch.setattr(service._stopping, "wait", waited.append)
    service.run()
    assert waited == [0.25, 0.25]


def test_a_stop_reaches_the_passes_over_the_log_and_over_the_queues() -> None:
    opened: Any = SimpleNamespace(config=StoreConfig(), line=LINE_4_9)
    cleaning = StoreCleaning(opened, RunningFlags(), lambda: 0)
    cleaning.stop()
    assert (cleaning.log._stopping.is_set(), cleaning.queues._stopping.is_set()) == (True, True)
