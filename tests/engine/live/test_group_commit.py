"""Group commit: who is answered PUT_OK, who is not, and how many share a flush."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from store import kernels
from store.engine.live import group_commit
from store.engine.live.group_commit import GroupCommitService
from store.errors import StoreClosed, StoreIOError
from store.files.filesystem import Descriptor, Filesystem
from store.files.mapped_file_queue import MappedFileQueue
from store.files.mapping import PAGE_SIZE
from store.kernels.commit_groups import NOT_DURABLE, CommitGroups
from tests.support.devices import HungDevice
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.threads import end_threads, eventually, run_in_threads
from tests.support.times import set_time

SIZE = 1 << 16
PATIENT_MS = 60_000
needs_compiled = pytest.mark.skipif(not kernels.COMPILED, reason="kernels run uncompiled")


class Checkpoint:
    physic_ms = 0

    def flush(self) -> None: ...


class OwnSync(Filesystem):
    """A file system with an fdatasync of its own: no kernel syncs its files."""

    def fdatasync(self, descriptor: Descriptor) -> None:
        super().fdatasync(descriptor)


@pytest.fixture(params=[Filesystem, OwnSync])
def fs(request: pytest.FixtureRequest) -> Filesystem:
    made: Filesystem = request.param()
    return made


@contextmanager
def running(service: GroupCommitService) -> Iterator[GroupCommitService]:
    service.start()
    try:
        yield service
    finally:
        service.stop()


def queue_on(folder: Path, fs: Filesystem, size: int = SIZE) -> MappedFileQueue:
    return MappedFileQueue(folder, size, fs, writable=True, keeps_descriptors=True)


def append(queue: MappedFileQueue, data: bytes = b"message") -> int:
    """Appends and gives the log offset behind it."""
    file = queue.last_file()
    file.append(data)
    return file.file_start + file.wrote


def append_time(queue: MappedFileQueue, store_timestamp_ms: int) -> int:
    """Appends a message of that store time."""
    end = append(queue)
    queue.last_file().store_timestamp_ms = store_timestamp_ms
    return end


@contextmanager
def waiting(service: GroupCommitService, *offsets: int) -> Iterator[list[bool | Exception]]:
    """Threads that wait for these offsets; what each got, behind the block."""
    answers: list[bool | Exception] = []

    def wait(offset: int) -> None:
        try:
            answers.append(service.flush_to(offset, PATIENT_MS))
        except (MemoryError, StoreIOError) as error:
            answers.append(error)

    groups = service._groups
    before = groups.waiting_count
    threads = [threading.Thread(target=wait, args=(offset,), daemon=True) for offset in offsets]
    for thread in threads:
        thread.start()
    assert eventually(lambda: groups.waiting_count == before + len(offsets))
    yield answers
    end_threads(*threads)


def test_a_message_is_answered_when_it_is_durable(tmp_path: Path, fs: Filesystem) -> None:
    queue = queue_on(tmp_path, fs)
    with running(GroupCommitService(queue, Checkpoint())) as service:
        for _ in range(3):
            assert service.flush_to(append(queue), PATIENT_MS)
    assert queue.flushed_where == queue.max_wrote_offset
    assert queue.flush_count == 3


def test_messages_that_arrive_during_a_flush_share_the_next_one(tmp_path: Path) -> None:
    fs = HungDevice()
    queue = queue_on(tmp_path, fs)
    with running(GroupCommitService(queue, Checkpoint())) as service, waiting(service, append(queue)) as first:
        assert fs.entered.wait(60)
        with waiting(service, *(append(queue) for _ in range(15))) as later:
            fs.gate.set()
    assert (first, later) == ([True], [True] * 15)
    assert fs.flush_count == 2


def test_sixteen_threads_lose_no_answer(tmp_path: Path, fs: Filesystem) -> None:
    queue = queue_on(tmp_path, fs)
    put_lock = threading.Lock()
    answers: list[bool] = []

    def put(service: GroupCommitService) -> None:
        for _ in range(25):
            with put_lock:
                end = append(queue)
            answers.append(service.flush_to(end, PATIENT_MS))

    with running(GroupCommitService(queue, Checkpoint())) as service:
        run_in_threads(*[partial(put, service)] * 16)
    assert answers == [True] * 400
    assert service.failure is None


def test_messages_of_one_segment_after_another_are_answered_when_they_are_durable(
    tmp_path: Path, fs: Filesystem
) -> None:
    queue = queue_on(tmp_path, fs, PAGE_SIZE)
    with running(GroupCommitService(queue, Checkpoint())) as service:
        for _ in range(20):
            end = append(queue, bytes(PAGE_SIZE // 4))
            assert service.flush_to(end, PATIENT_MS)
    assert queue.flushed_where == 5 * PAGE_SIZE == end
    assert [file.flushed for file in queue.files] == [PAGE_SIZE] * 5


def test_a_message_many_segments_behind_the_flushed_place_is_answered_when_it_is_durable(
    tmp_path: Path, fs: Filesystem
) -> None:
    queue = queue_on(tmp_path, fs)
    for _ in range(5):
        append(queue, bytes(SIZE))
    end = append(queue)
    # Without a thread: its passes would flush a segment each before the request comes.
    service = GroupCommitService(queue, Checkpoint())
    with waiting(service, end) as answers:
        service.work()
    assert answers == [True]
    assert queue.flushed_where == end
    assert queue.flush_count == 6


def test_a_device_that_does_not_answer_gives_a_timeout(tmp_path: Path) -> None:
    fs = HungDevice()
    queue = queue_on(tmp_path, fs)
    with running(GroupCommitService(queue, Checkpoint())) as service:
        assert not service.flush_to(append(queue), 20)
        # So it does to who comes while the flush hangs, to many threads too.
        assert not service.flush_to(append(queue), 20)
        fs.gate.set()


def test_a_failed_flush_fails_every_waiting_request_and_all_later_ones(tmp_path: Path) -> None:
    fs = FaultyFilesystem(when=lambda name, _: name == "fdatasync")
    queue = queue_on(tmp_path, fs)
    service = GroupCommitService(queue, Checkpoint())
    noted = list[BaseException | None]()
    service.on_failure = lambda: noted.append(service.failure)
    with waiting(service, *(append(queue) for _ in range(3))) as answers, running(service):
        assert eventually(lambda: len(answers) == 3)
        fs.when = None
        with pytest.raises(StoreIOError):
            service.flush_to(append(queue), PATIENT_MS)
    assert [type(answer) for answer in answers] == [StoreIOError] * 3
    assert noted == [service.failure]
    assert queue.flushed_where == 0


@needs_compiled
def test_a_sync_that_fails_without_the_interpreter_is_never_answered_by_a_later_one(tmp_path: Path) -> None:
    """The device's refusal is a pipe in the place of the segment: it can't be synced, and afterwards it could."""
    queue = queue_on(tmp_path, Filesystem())
    service = GroupCommitService(queue, Checkpoint())
    with waiting(service, append(queue)):
        service.work()
    file, end, (reader, writer) = queue.last_file(), append(queue), os.pipe()
    good, file._descriptor = file._descriptor, Descriptor(writer, file.path)
    with waiting(service, end) as first, pytest.raises(StoreIOError, match="cannot flush the file: invalid argument"):
        service.work()
    file._descriptor = good
    with waiting(service, end) as second, pytest.raises(StoreIOError):
        service.work()
    os.close(reader)
    assert [type(answer) for answer in first + second] == [StoreIOError] * 2
    assert queue.flushed_where == len(b"message")


def test_a_segment_that_was_shortened_is_an_error(tmp_path: Path, fs: Filesystem) -> None:
    queue = queue_on(tmp_path, fs)
    with running(GroupCommitService(queue, Checkpoint())) as service:
        assert service.flush_to(append(queue), PATIENT_MS)
        file = queue.last_file()
        end = append(queue)
        os.truncate(file.path, SIZE - 1)
        with pytest.raises(StoreIOError):
            service.flush_to(end, PATIENT_MS)


def test_the_checkpoint_learns_the_store_time_only_when_somebody_waited(tmp_path: Path, fs: Filesystem) -> None:
    queue, checkpoint = queue_on(tmp_path, fs), Checkpoint()
    service = GroupCommitService(queue, checkpoint)
    for store_timestamp_ms in (123, 456):
        before = checkpoint.physic_ms
        end = append_time(queue, store_timestamp_ms)
        service.work()
        assert queue.flushed_where == end
        assert checkpoint.physic_ms == before
        with waiting(service, end):
            service.work()
        assert checkpoint.physic_ms == store_timestamp_ms


@needs_compiled
def test_the_checkpoint_learns_no_time_of_a_message_that_is_not_durable(tmp_path: Path) -> None:
    """Such a message comes behind the flush of a group, before the service looks at the time."""

    class Late(Filesystem):
        is_late = False

        def sync_for_groups(self, *arguments: Any) -> tuple[int, int, int]:
            found = super().sync_for_groups(*arguments)
            if self.is_late:
                append_time(queue, 789)
            return found

    queue, checkpoint = queue_on(tmp_path, fs := Late()), Checkpoint()
    service = GroupCommitService(queue, checkpoint)
    for store_timestamp_ms, is_late in ((123, False), (456, True)):
        fs.is_late = is_late
        with waiting(service, append_time(queue, store_timestamp_ms)):
            service.work()
    assert checkpoint.physic_ms == 456


def test_requests_under_way_at_the_stop_are_still_answered_and_later_ones_refused(
    tmp_path: Path, fs: Filesystem
) -> None:
    queue = queue_on(tmp_path, fs)
    service = GroupCommitService(queue, Checkpoint())
    with waiting(service, append(queue)) as answers:
        service.last_work()
    assert answers == [True]
    with pytest.raises(StoreClosed):
        service.flush_to(append(queue), PATIENT_MS)


def test_a_group_that_waits_for_the_next_segment_at_the_stop_is_answered_too(tmp_path: Path, fs: Filesystem) -> None:
    queue = queue_on(tmp_path, fs, PAGE_SIZE)
    service = GroupCommitService(queue, Checkpoint())
    with waiting(service, append(queue)):
        service.work()
    with waiting(service, append(queue, bytes(PAGE_SIZE - 7))) as first:
        service._groups.take()
        with waiting(service, append(queue)) as second:
            service.last_work()
    assert (first, second) == ([True], [True])


def test_at_the_stop_a_failure_reaches_everybody_who_waits(tmp_path: Path) -> None:
    queue = queue_on(tmp_path, FaultyFilesystem(when=lambda name, _: name == "fdatasync"))
    service = GroupCommitService(queue, Checkpoint())
    with waiting(service, append(queue)) as first:
        service._groups.take()
        with waiting(service, append(queue)) as second:
            service.last_work()
    assert [type(answer) for answer in first + second] == [StoreIOError] * 2


class ScriptedQueue:
    """Answers flushes by a script: whether nothing moved. Notes what it was asked."""

    store_timestamp_ms = 0

    def __init__(self, *unmoved: bool, flushed_where: int = 0) -> None:
        self.unmoved, self.flushed_where = list(unmoved), flushed_where
        self.asked: list[int] = []

    def flush(self, least_pages: int) -> bool:
        self.asked.append(least_pages)
        return self.unmoved[len(self.asked) - 1]

    def flush_groups(self, groups: CommitGroups) -> bool:
        return False


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
    with waiting(service, 100) as answers:
        service.work()
    assert answers == [False]
    assert queue.asked == [0] * flushes


@pytest.mark.parametrize("flushed_where", [100, 101])
def test_what_is_durable_already_is_not_flushed_again(flushed_where: int) -> None:
    queue = ScriptedQueue(flushed_where=flushed_where)
    service = GroupCommitService(queue, Checkpoint())  # type: ignore[arg-type]
    with waiting(service, 100) as answers:
        service.work()
    assert answers == [True]
    assert queue.asked == []


def test_a_group_that_needs_no_byte_is_answered_without_a_flush() -> None:
    service = GroupCommitService(queue := ScriptedQueue(), Checkpoint())  # type: ignore[arg-type]
    with waiting(service, 0) as first:
        service.work()
    with waiting(service, 0) as second:
        service._groups.take()
        with waiting(service, 0) as third:
            service.last_work()
    assert first == second == third == [True]
    assert queue.asked == []


class OnceBrokenQueue(ScriptedQueue):
    """The first flush ends by an error that is none of the device's."""

    def flush(self, least_pages: int) -> bool:
        if not self.asked:
            super().flush(least_pages)
            raise MemoryError
        self.flushed_where = 100
        return super().flush(least_pages)


def test_a_group_behind_one_that_failed_gets_its_own_answer() -> None:
    service = GroupCommitService(OnceBrokenQueue(False, False), Checkpoint())  # type: ignore[arg-type]
    with waiting(service, 7) as first, pytest.raises(MemoryError):
        service.work()
    with waiting(service, 8) as second:
        service.work()
    assert [type(answer) for answer in first] == [MemoryError]
    assert second == [True]


@pytest.mark.parametrize(("flushed_where", "is_durable"), [(6, False), (7, True), (8, True)])
def test_a_message_is_durable_when_its_last_byte_is(flushed_where: int, is_durable: bool) -> None:
    service = GroupCommitService(ScriptedQueue(True, True, flushed_where=flushed_where), Checkpoint())  # type: ignore[arg-type]
    with waiting(service, 7) as answers:
        service.work()
    assert answers == [is_durable]


@pytest.mark.parametrize("timeout_ms", [0, 30, 5000])
def test_a_wait_lasts_as_many_milliseconds_as_it_is_given(timeout_ms: int) -> None:
    service, asked = GroupCommitService(ScriptedQueue(), Checkpoint()), list[tuple[int, int]]()  # type: ignore[arg-type]

    class Groups:
        def wait(self, next_offset: int, timeout_ms: int) -> int:
            asked.append((next_offset, timeout_ms))
            return NOT_DURABLE

    service._groups = Groups()  # type: ignore[assignment]
    assert not service.flush_to(7, timeout_ms)
    assert asked == [(7, timeout_ms)]


def test_the_service_looks_every_ten_milliseconds_and_gathers_as_long_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service, slept = GroupCommitService(ScriptedQueue(True), Checkpoint()), list[float]()  # type: ignore[arg-type]
    set_time(monkeypatch, group_commit, sleep=slept.append)
    service.last_work()
    assert (group_commit.GROUP_INTERVAL_MS, slept) == (10, [0.01])


def test_a_message_that_nobody_waits_for_is_flushed_in_passing(tmp_path: Path, fs: Filesystem) -> None:
    queue = queue_on(tmp_path, fs)
    with running(GroupCommitService(queue, Checkpoint())) as service:
        for _ in range(2):
            end = append(queue)
            service.wakeup()
            assert eventually(lambda end=end: queue.flushed_where == end)


def test_a_group_of_nobody_is_flushed(tmp_path: Path, fs: Filesystem) -> None:
    queue = queue_on(tmp_path, fs)
    end = append(queue)
    assert GroupCommitService(queue, Checkpoint())._flush_group(end)
    assert queue.flushed_where == end


def test_a_file_system_with_its_own_sync_flushes_no_group_by_itself(tmp_path: Path) -> None:
    class Own(Filesystem):
        def fdatasync(self, descriptor: Descriptor) -> None:
            super().fdatasync(descriptor)

    opened = Own().open_new(tmp_path / "file")
    assert Own().sync_for_groups(opened, cast(Any, None), 4096, 7, 4096) == (0, 0, 7)
