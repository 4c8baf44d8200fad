"""The timed services: what a round does, when it is thorough, what happens at the stop."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from store.config import StoreConfig
from store.engine.live import service as service_module
from store.engine.live.flush import CommitRealTimeService, FlushConsumeQueueService, FlushRealTimeService
from store.engine.live.reput import ReputMessageService
from store.engine.live.service import ServiceThread
from store.errors import StoreIOError
from tests.support.stores import Clock
from tests.support.threads import eventually

NEVER_MS = 3_600_000


class Queue:
    """Notes what it was asked for; `rounds` says how often something moves."""

    flushed_where = 0

    def __init__(self, rounds: int = 0) -> None:
        self.store_timestamp_ms = 0
        self.rounds = rounds
        self.asked: list[int] = []

    def waits_for_flush(self, least_pages: int) -> bool:
        return True

    def flush(self, least_pages: int) -> bool:
        self.asked.append(least_pages)
        self.rounds -= 1
        return self.rounds < 0

    commit = flush


class Checkpoint:
    def __init__(self) -> None:
        self.physic_ms = 0
        self.flush_count = 0

    def flush(self) -> None:
        self.flush_count += 1


def test_the_log_is_flushed_thoroughly_once_per_long_interval() -> None:
    queue, clock = Queue(), Clock()
    service = FlushRealTimeService(queue, Checkpoint(), StoreConfig(), clock)
    for _ in range(5):
        service.work()
        clock.now_ms += 4_000
    assert queue.asked == [0, 4, 4, 0, 4]


@pytest.mark.parametrize(("waited_ms", "least_pages"), [(9_999, 4), (10_000, 0), (10_001, 0)])
def test_a_flush_of_the_log_is_thorough_from_the_interval_on(waited_ms: int, least_pages: int) -> None:
    queue, clock = Queue(), Clock()
    service = FlushRealTimeService(queue, Checkpoint(), StoreConfig(), clock)
    service.work()
    clock.now_ms += waited_ms
    service.work()
    assert queue.asked == [0, least_pages]


@pytest.mark.parametrize(("waited_ms", "least_pages"), [(199, 4), (200, 0), (201, 0)])
def test_a_commit_is_thorough_from_the_interval_on(waited_ms: int, least_pages: int) -> None:
    queue, clock = Queue(), Clock()
    service = CommitRealTimeService(queue, Idle(1), StoreConfig(), clock)
    service.work()
    clock.now_ms += waited_ms
    service.work()
    assert queue.asked == [0, least_pages]


@pytest.mark.parametrize(("waited_ms", "least_pages"), [(59_999, 2), (60_000, 0), (60_001, 0)])
def test_a_flush_of_queues_is_thorough_from_the_interval_on(waited_ms: int, least_pages: int) -> None:
    queue, clock = Queue(), Clock()
    service = FlushConsumeQueueService(lambda: [queue], Checkpoint(), StoreConfig(), clock)
    service.work()
    clock.now_ms += waited_ms
    service.work()
    assert queue.asked == [0, least_pages]


def test_the_checkpoint_gets_the_time_of_the_last_thorough_flush() -> None:
    queue, checkpoint = Queue(), Checkpoint()
    service = FlushRealTimeService(queue, checkpoint, StoreConfig(), Clock())
    service.work()
    assert checkpoint.physic_ms == 0
    queue.store_timestamp_ms = 55
    service.work()
    assert checkpoint.physic_ms == 55


def test_the_last_flush_goes_on_until_nothing_moves_but_not_for_ever() -> None:
    few, endless = Queue(rounds=2), Queue(rounds=1000)
    FlushRealTimeService(few, Checkpoint(), StoreConfig()).last_work()
    FlushRealTimeService(endless, Checkpoint(), StoreConfig()).last_work()
    assert (few.asked, endless.asked) == ([0, 0, 0], [0] * 10)


def test_a_flusher_that_is_not_timed_is_woken_by_puts() -> None:
    flushed = threading.Event()

    class Noting(Queue):
        def flush(self, least_pages: int) -> bool:
            flushed.set()
            return super().flush(least_pages)

    config = StoreConfig(flush_interval_commit_log=NEVER_MS, flush_commit_log_timed=False)
    service = FlushRealTimeService(Noting(), Checkpoint(), config)
    service.start()
    service.wakeup()
    assert flushed.wait(60)
    service.stop()


def test_a_timed_flusher_is_not_woken_by_commits_but_by_the_stop() -> None:
    queue = Queue()
    service = FlushRealTimeService(queue, Checkpoint(), StoreConfig(flush_interval_commit_log=NEVER_MS))
    service.start()
    service.wakeup()
    service.stop()
    assert not service._thread.is_alive()
    assert queue.asked[-1] == 0


def test_a_commit_that_moves_wakes_the_flusher() -> None:
    flushed = threading.Event()

    class Flusher(ServiceThread):
        def work(self) -> None:
            flushed.set()

    flusher = Flusher(NEVER_MS)
    flusher.start()
    service = CommitRealTimeService(Queue(rounds=1), flusher, StoreConfig(), Clock())
    service.work()
    assert flushed.wait(60)
    flusher.stop()


class Idle(ServiceThread):
    """A service with nothing to do."""

    def work(self) -> None:
        pass


def test_commits_are_thorough_after_their_interval() -> None:
    queue, clock = Queue(), Clock()
    service = CommitRealTimeService(queue, Idle(1), StoreConfig(), clock)
    for _ in range(4):
        service.work()
        clock.now_ms += 150
    assert queue.asked == [0, 4, 0, 4]


def test_the_last_commit_goes_on_until_nothing_moves() -> None:
    queue = Queue(rounds=3)
    CommitRealTimeService(queue, Idle(1), StoreConfig()).last_work()
    assert queue.asked == [0, 0, 0, 0]


def test_consume_queues_are_flushed_once_a_round_and_the_checkpoint_only_thoroughly() -> None:
    queues, checkpoint, clock = [Queue(rounds=5), Queue()], Checkpoint(), Clock()
    service = FlushConsumeQueueService(lambda: queues, checkpoint, StoreConfig(), clock)
    service.work()
    service.work()
    assert [queue.asked for queue in queues] == [[0, 2], [0, 2]]
    assert checkpoint.flush_count == 1
    clock.now_ms += 60_000
    service.work()
    assert checkpoint.flush_count == 2


def test_at_the_stop_consume_queues_get_three_tries_and_the_checkpoint_is_written() -> None:
    queues, checkpoint = [Queue(rounds=5), Queue()], Checkpoint()
    FlushConsumeQueueService(lambda: queues, checkpoint, StoreConfig()).last_work()
    assert [queue.asked for queue in queues] == [[0, 0, 0], [0]]
    assert checkpoint.flush_count == 1


def test_the_first_failure_is_kept_and_the_thread_can_be_joined() -> None:
    failures = iter([StoreIOError("first"), StoreIOError("second")])
    failed_twice = threading.Event()

    class Failing(ServiceThread):
        def work(self) -> None:
            error = next(failures, None)
            if error is None:
                failed_twice.set()
            else:
                raise error

    service = Failing(1)
    service.start()
    assert failed_twice.wait(60)
    service.stop()
    assert str(service.failure) == "first"


@pytest.mark.parametrize("outlasts", [False, True])
@pytest.mark.parametrize(
    ("number", "failure"),
    [(errno.EMFILE, None), (errno.ENFILE, None), (errno.EIO, "refused"), (errno.ENOSPC, "refused")],
)
def test_only_too_many_open_files_are_waited_out_and_a_full_disk_by_some(
    number: int, failure: str | None, outlasts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "RETRY_S", 0)
    failure = None if outlasts and number == errno.ENOSPC else failure
    troubles: list[list[str]] = []

    class Failing(ServiceThread):
        outlasts_full_disk = outlasts

        def work(self) -> None:
            troubles.append(self.describe_findings())
            if len(troubles) <= 2:
                raise StoreIOError("refused", errno=number)

    service = Failing(1)
    service.start()
    assert eventually(lambda: len(troubles) > 3)
    service.stop()
    assert (service.failure and str(service.failure), service.trouble) == (failure, None)
    said = "Failing failed: refused" if failure else "Failing tries again: refused"
    assert troubles[:4] == [[], [said], [said], [said] if failure else []]


def test_of_all_services_commits_and_dispatch_outlast_a_full_disk() -> None:
    made = [ServiceThread]
    for one in made:
        made += one.__subclasses__()
    outlasting = {one.__name__ for one in made if one.outlasts_full_disk and one.__module__.startswith("store.")}
    assert outlasting == {CommitRealTimeService.__name__, ReputMessageService.__name__}


def test_too_many_open_files_at_the_stop_are_a_failure() -> None:
    class Failing(Idle):
        def last_work(self) -> None:
            raise StoreIOError("refused", errno=errno.EMFILE)

    service = Failing(1)
    service.start()
    service.stop()
    assert (str(service.failure), service.trouble) == ("refused", None)


def test_a_service_that_never_started_can_be_stopped() -> None:
    service = Idle(1)
    assert service._alarm.locked(), "no wake-up came yet"
    service.stop()
    assert not service._alarm.locked(), "a sleeper is woken"
    service.wakeup()
    assert (service._is_over(), service._interval_seconds) == (True, 0.001)


@pytest.mark.turns(3)
@pytest.mark.parametrize("with_file", [False, True])
def test_a_program_that_forgets_to_close_still_ends(with_file: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("store")
    program = f"""
from pathlib import Path
from store.files.filesystem import Filesystem
from store.files.allocate import AllocateMappedFileService
from store.engine.live.reput import ReputMessageService
from store.engine.live.service import ServiceThread
from tests.support.stores import Clock
from tests.support.threads import eventually
class Idle(ServiceThread):
    def work(self): pass
Idle(10).start()
if {with_file}:
    AllocateMappedFileService(Filesystem()).take(Path({str(folder)!r}), 0, 4096)
"""
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", program], cwd=root, timeout=120, check=False).returncode == 0
