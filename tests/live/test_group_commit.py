"""Group commit: who is answered PUT_OK, who is not, and how many share a flush."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from store.disk.filesystem import Descriptor, Filesystem
from store.disk.mapped_file_queue import MappedFileQueue
from store.errors import StoreClosed, StoreIOError
from store.live.group_commit import FlushStatus, GroupCommitRequest, GroupCommitService
from tests.support.faulty_filesystem import FaultyFilesystem

SIZE = 1 << 16
PATIENT_MS = 60_000


class Checkpoint:
    physic_ms = 0

    def flush(self) -> None: ...


class GatedFilesystem(Filesystem):
    """A device that finishes a flush only when it is let through."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.flush_count = 0

    def fdatasync(self, descriptor: Descriptor) -> None:
        self.entered.set()
        self.gate.wait()
        self.flush_count += 1


class StubbornQueue:
    """A queue whose flushes get nowhere, or only so many bytes forward."""

    store_timestamp_ms = 0

    def __init__(self, step: int = 0) -> None:
        self.flushed_where = 0
        self.step = step
        self.flush_count = 0

    def flush(self, least_pages: int) -> bool:
        self.flush_count += 1
        self.flushed_where += self.step
        return not self.step

    def commit(self, least_pages: int) -> bool:
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
        assert service.flush_to(end, PATIENT_MS) is FlushStatus.PUT_OK
        assert queue.flushed_where >= end
    assert fs.count("fdatasync") == 1


def test_messages_that_arrive_during_a_flush_share_the_next_one(tmp_path: Path) -> None:
    fs = GatedFilesystem()
    queue = queue_on(tmp_path, fs)
    with running(GroupCommitService(queue, Checkpoint())) as service:
        requests = [GroupCommitRequest(append(queue), PATIENT_MS)]
        service.put_request(requests[0])
        fs.entered.wait()
        for _ in range(15):
            requests.append(GroupCommitRequest(append(queue), PATIENT_MS))
            service.put_request(requests[-1])
        fs.gate.set()
        assert {request.wait() for request in requests} == {FlushStatus.PUT_OK}
    assert fs.flush_count == 2


def test_sixteen_threads_lose_no_answer(tmp_path: Path) -> None:
    queue = queue_on(tmp_path, Filesystem())
    put_lock = threading.Lock()
    answers: list[FlushStatus] = []

    def put(service: GroupCommitService) -> None:
        for _ in range(25):
            with put_lock:
                end = append(queue)
            answers.append(service.flush_to(end, PATIENT_MS))
            assert queue.flushed_where >= end

    with running(GroupCommitService(queue, Checkpoint())) as service:
        threads = [threading.Thread(target=put, args=(service,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [FlushStatus.PUT_OK] * 400
    assert service.failure is None


def test_a_message_two_files_ahead_takes_two_flushes(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    queue = queue_on(tmp_path, fs)
    append(queue, bytes(SIZE))
    end = append(queue)
    service = GroupCommitService(queue, Checkpoint())
    service.put_request(request := GroupCommitRequest(end, PATIENT_MS))
    service.work()
    assert request.wait() is FlushStatus.PUT_OK
    assert fs.count("fdatasync") == 2


def test_a_request_gets_at_most_two_flushes() -> None:
    service = GroupCommitService(queue := StubbornQueue(), Checkpoint())
    service.put_request(request := GroupCommitRequest(100, PATIENT_MS))
    service.work()
    assert request.wait() is FlushStatus.FLUSH_DISK_TIMEOUT
    assert queue.flush_count == 2


def test_a_device_that_does_not_answer_gives_a_timeout_and_the_late_answer_is_ignored(tmp_path: Path) -> None:
    fs = GatedFilesystem()
    queue = queue_on(tmp_path, fs)
    with running(GroupCommitService(queue, Checkpoint())) as service:
        request = GroupCommitRequest(append(queue), 20)
        service.put_request(request)
        assert request.wait() is FlushStatus.FLUSH_DISK_TIMEOUT
        fs.gate.set()
    assert request.wait() is FlushStatus.FLUSH_DISK_TIMEOUT


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
    service.put_request(GroupCommitRequest(end, PATIENT_MS))
    service.work()
    assert checkpoint.physic_ms == 123


def test_requests_under_way_at_the_stop_are_still_answered_and_later_ones_refused(tmp_path: Path) -> None:
    queue = queue_on(tmp_path, Filesystem())
    service = GroupCommitService(queue, Checkpoint())
    service.start()
    request = GroupCommitRequest(append(queue), PATIENT_MS)
    service.put_request(request)
    service.stop()
    assert request.wait() is FlushStatus.PUT_OK
    with pytest.raises(StoreClosed):
        service.flush_to(append(queue), PATIENT_MS)
