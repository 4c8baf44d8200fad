"""Group commit: who is answered PUT_OK, who is not, and how many share a flush."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from store.disk.filesystem import Filesystem
from store.disk.mapped_file_queue import MappedFileQueue
from store.errors import StoreClosed, StoreIOError
from store.live import group_commit
from store.live.group_commit import CommitGroup, GroupCommitService
from tests.support.devices import HungDevice
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.threads import run_in_threads

SIZE = 1 << 16
PATIENT_MS = 60_000


class Checkpoint:
    physic_ms = 0

    def flush(self) -> None: ...


class StubbornQueue:
    """A queue whose flushes get nowhere."""

    store_timestamp_ms = 0

    def __init__(self) -> None:
        self.flushed_where = 0
        self.flush_count = 0

    def flush(self, least_pages: int) -> bool:
        self.flush_count += 1
        return True


@contextmanager
def running(service: GroupCommitService) -> Iterator[GroupCommitService]:
    service.start()
    try:
        yield service
    finally:
        service.stop()


def queue_on(folder: Path, fs: Filesystem) -> MappedFileQueue:
    return MappedFileQueue(folder, SIZE, fs, writable=True)


def append(queue: MappedFileQueue, data: bytes = b"message") -> int:
    """Appends and gives the log offset behind it."""
    file = queue.last_file()
    file.append(data)
    return file.file_start + file.wrote


def test_a_message_is_answered_when_it_is_durable(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    queue = queue_on(tmp_path, fs)
    with running(GroupCommitService(queue, Checkpoint())) as service:
        end = append(queue)
        assert service.flush_to(end, PATIENT_MS)
        assert queue.flushed_where >= end
    assert fs.count("fdatasync") == 1


def test_messages_that_arrive_during_a_flush_share_the_next_one(tmp_path: Path) -> None:
    fs = HungDevice()
    queue = queue_on(tmp_path, fs)
    with running(GroupCommitService(queue, Checkpoint())) as service:
        first = service.join(append(queue))
        assert fs.entered.wait(60)
        later = [service.join(append(queue)) for _ in range(15)]
        fs.gate.set()
        for group in (first, *later):
            group.wait(PATIENT_MS)
    assert len({id(group) for group in later}) == 1
    assert fs.flush_count == 2


def test_sixteen_threads_lose_no_answer(tmp_path: Path) -> None:
    queue = queue_on(tmp_path, Filesystem())
    put_lock = threading.Lock()
    answers: list[bool] = []

    def put(service: GroupCommitService) -> None:
        for _ in range(25):
            with put_lock:
                end = append(queue)
            answers.append(service.flush_to(end, PATIENT_MS))
            assert queue.flushed_where >= end

    with running(GroupCommitService(queue, Checkpoint())) as service:
        run_in_threads(*[partial(put, service)] * 16)
    assert answers == [True] * 400
    assert service.failure is None


def test_a_message_many_segments_behind_the_flushed_place_is_answered_when_it_is_durable(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    queue = queue_on(tmp_path, fs)
    for _ in range(5):
        append(queue, bytes(SIZE))
    end = append(queue)
    # Without a thread: its passes would flush a segment each before the request comes.
    service = GroupCommitService(queue, Checkpoint())
    group = service.join(end)
    service.work()
    group.wait(PATIENT_MS)
    assert queue.flushed_where == end
    assert fs.count("fdatasync") == 6


def test_a_queue_that_cannot_be_flushed_any_further_gives_no_ok() -> None:
    service = GroupCommitService(queue := StubbornQueue(), Checkpoint())
    group = service.join(100)
    service.work()
    group.wait(PATIENT_MS)
    assert queue.flush_count == 2
    assert queue.flushed_where < 100


def test_a_device_that_does_not_answer_gives_a_timeout(tmp_path: Path) -> None:
    fs = HungDevice()
    queue = queue_on(tmp_path, fs)
    with running(GroupCommitService(queue, Checkpoint())) as service:
        assert not service.flush_to(append(queue), 20)
        fs.gate.set()


def test_a_failed_flush_fails_every_waiting_request_and_all_later_ones(tmp_path: Path) -> None:
    fs = FaultyFilesystem(when=lambda name, _: name == "fdatasync")
    queue = queue_on(tmp_path, fs)
    with running(GroupCommitService(queue, Checkpoint())) as service:
        with pytest.raises(StoreIOError):
            service.flush_to(append(queue), PATIENT_MS)
        fs.when = None
        with pytest.raises(StoreIOError):
            service.flush_to(append(queue), PATIENT_MS)
    assert isinstance(service.failure, StoreIOError)


def test_the_checkpoint_learns_the_store_time_only_when_somebody_waited(tmp_path: Path) -> None:
    queue, checkpoint = queue_on(tmp_path, Filesystem()), Checkpoint()
    service = GroupCommitService(queue, checkpoint)
    end = append(queue)
    queue.last_file().store_timestamp_ms = 123
    service.work()
    assert queue.flushed_where == end
    assert checkpoint.physic_ms == 0
    service.join(end)
    service.work()
    assert checkpoint.physic_ms == 123


def test_requests_under_way_at_the_stop_are_still_answered_and_later_ones_refused(tmp_path: Path) -> None:
    queue = queue_on(tmp_path, Filesystem())
    service = GroupCommitService(queue, Checkpoint())
    service.start()
    end = append(queue)
    group = service.join(end)
    service.stop()
    group.wait(0)
    assert queue.flushed_where == end
    with pytest.raises(StoreClosed):
        service.flush_to(append(queue), PATIENT_MS)


class ScriptedQueue:
    """Answers flushes by a script: whether nothing moved. Notes what it was asked."""

    store_timestamp_ms = 0

    def __init__(self, *unmoved: bool, flushed_where: int = 0) -> None:
        self.unmoved, self.flushed_where = list(unmoved), flushed_where
        self.asked: list[int] = []

    def flush(self, least_pages: int) -> bool:
        self.asked.append(least_pages)
        return self.unmoved[len(self.asked) - 1]


class BrokenQueue(ScriptedQueue):
    """Every flush fails."""

    def flush(self, least_pages: int) -> bool:
        raise StoreIOError("no device", file=Path("x"))


@pytest.mark.parametrize(
    ("unmoved", "flushes"),
    [
        ([True, True, True, True], 2),
        ([False, True, True, True], 3),
        ([True, False, True, True, True], 4),
        ([True, False, False, True, True, True], 5),
    ],
)
def test_a_group_is_given_up_when_two_flushes_in_a_row_move_nothing(unmoved: list[bool], flushes: int) -> None:
    queue = ScriptedQueue(*unmoved)
    service = GroupCommitService(queue, Checkpoint())  # type: ignore[arg-type]
    service.join(100)
    service.work()
    assert queue.asked == [0] * flushes


@pytest.mark.parametrize("flushed_where", [100, 101])
def test_what_is_durable_already_is_not_flushed_again(flushed_where: int) -> None:
    queue = ScriptedQueue(flushed_where=flushed_where)
    service = GroupCommitService(queue, Checkpoint())  # type: ignore[arg-type]
    group = service.join(100)
    service.work()
    group.wait(PATIENT_MS)
    assert queue.asked == []


def test_a_group_waits_for_the_last_byte_of_all_that_joined() -> None:
    service = GroupCommitService(ScriptedQueue(), Checkpoint())  # type: ignore[arg-type]
    assert [service.join(place).next_offset for place in (0, 7, 5, 7, 9)] == [0, 7, 7, 7, 9]
    assert CommitGroup().is_empty
    assert not GroupCommitService(ScriptedQueue(), Checkpoint()).join(0).is_empty  # type: ignore[arg-type]


class NotedGate:
    """A gate that does not open, and notes how long somebody would wait."""

    def __init__(self, *, opens: bool = False) -> None:
        self.opens, self.waits, self.released = opens, list[float](), 0

    def acquire(self, timeout: float) -> bool:
        self.waits.append(timeout)
        return self.opens

    def release(self) -> None:
        self.released += 1


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(0, 0.0), (30, 0.03), (5000, 5.0), (1, 0.001)])
@pytest.mark.parametrize("opens", [True, False])
def test_a_wait_lasts_as_many_milliseconds_as_it_is_given(timeout_ms: int, seconds: float, opens: bool) -> None:
    group = CommitGroup()
    group.gate = gate = NotedGate(opens=opens)  # type: ignore[assignment]
    group.wait(timeout_ms)
    assert gate.waits == [seconds]
    # Who comes through opens the gate for the next.
    assert gate.released == opens


def test_the_service_looks_every_ten_milliseconds_and_gathers_as_long_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service, slept = GroupCommitService(ScriptedQueue(True), Checkpoint()), list[float]()  # type: ignore[arg-type]
    monkeypatch.setattr(group_commit.time, "sleep", slept.append)
    service.last_work()
    assert (service._interval_seconds, slept) == (0.01, [0.01])


def test_a_failure_reaches_those_who_waited_and_no_other_group() -> None:
    service = GroupCommitService(BrokenQueue(), Checkpoint())  # type: ignore[arg-type]
    group = service.join(7)
    with pytest.raises(StoreIOError):
        service.work()
    later = service.join(8)
    assert later is not group
    assert (later.failure, later.next_offset) == (None, 8)
    with pytest.raises(StoreIOError):
        group.wait(0)
    # The gate is open: nobody waits for the end of the time.
    assert group.gate.acquire(blocking=False)


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(0, 0.0), (30, 0.03), (5000, 5.0)])
def test_a_leader_waits_as_many_milliseconds_for_the_flush_before(timeout_ms: int, seconds: float) -> None:
    service = GroupCommitService(ScriptedQueue(), Checkpoint())  # type: ignore[arg-type]
    service._has_company = True
    service._flushing = before = NotedGate()  # type: ignore[assignment]
    assert not service.flush_to(7, timeout_ms)
    assert (before.waits, before.released) == ([seconds], 0)


def test_a_group_that_the_service_has_flushed_is_not_flushed_by_its_leader_again() -> None:
    service = GroupCommitService(queue := ScriptedQueue(flushed_where=7), Checkpoint())  # type: ignore[arg-type]
    group = service.join(7)
    service.work()
    service._lead(group, PATIENT_MS)
    assert (queue.asked, service.failure, group.is_flushed) == ([], None, True)


def test_the_first_message_of_a_group_wakes_the_service_and_no_other_does(monkeypatch: pytest.MonkeyPatch) -> None:
    service, woken = GroupCommitService(ScriptedQueue(), Checkpoint()), list[int]()  # type: ignore[arg-type]
    monkeypatch.setattr(service, "wakeup", lambda: woken.append(1))
    service._group.gate.release()
    counts = []
    for place in (7, 8, 9):
        service.flush_to(place, 0)
        counts.append(len(woken))
    assert counts == [1, 1, 1]


@pytest.mark.parametrize(("flushed_where", "is_durable"), [(6, False), (7, True), (8, True)])
def test_a_message_is_durable_when_its_last_byte_is(flushed_where: int, is_durable: bool) -> None:
    service = GroupCommitService(ScriptedQueue(flushed_where=flushed_where), Checkpoint())  # type: ignore[arg-type]
    service._group.gate.release()
    assert service.flush_to(7, 0) is is_durable


def with_company(queue: MappedFileQueue) -> GroupCommitService:
    """A service, not started, whose last group had two messages."""
    service = GroupCommitService(queue, Checkpoint())
    for _ in range(2):
        service.join(append(queue))
    service.work()
    return service


def test_the_first_of_several_threads_flushes_itself(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    queue = queue_on(tmp_path, fs)
    service = with_company(queue)
    assert service.flush_to(append(queue), PATIENT_MS)
    assert fs.count("fdatasync") == 2


@pytest.mark.parametrize("messages", [0, 1])
def test_a_thread_that_puts_alone_leaves_the_flush_to_the_service(tmp_path: Path, messages: int) -> None:
    queue = queue_on(tmp_path, Filesystem())
    service = GroupCommitService(queue, Checkpoint())
    for _ in range(messages):
        service.join(append(queue))
        service.work()
    assert not service.flush_to(append(queue), 1)
    service.work()
    assert queue.flushed_where == queue.max_wrote_offset


def test_a_leader_alone_leaves_the_next_flush_to_the_service(tmp_path: Path) -> None:
    queue = queue_on(tmp_path, Filesystem())
    service = with_company(queue)
    assert service.flush_to(append(queue), PATIENT_MS)
    assert not service.flush_to(append(queue), 1)


def test_a_leader_whose_flush_fails_gives_the_error_to_its_group_and_to_the_store(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    queue = queue_on(tmp_path, fs)
    service, noted = with_company(queue), threading.Event()
    service.on_failure = noted.set
    fs.when = lambda name, _: name == "fdatasync"
    with pytest.raises(StoreIOError):
        service.flush_to(append(queue), PATIENT_MS)
    assert noted.is_set()
    assert isinstance(service.failure, StoreIOError)


def test_a_leader_waits_for_the_flush_before_no_longer_than_it_may(tmp_path: Path) -> None:
    fs = HungDevice()
    queue = queue_on(tmp_path, fs)
    fs.gate.set()
    service = with_company(queue)
    fs.gate.clear()
    fs.entered.clear()
    service.join(append(queue))
    service.join(append(queue))
    flushing = threading.Thread(target=service.work)
    flushing.start()
    assert fs.entered.wait(60)
    assert not service.flush_to(append(queue), 20)
    fs.gate.set()
    flushing.join()
    # The group that its leader gave up is the service's.
    service.work()
    assert queue.flushed_where == queue.max_wrote_offset
