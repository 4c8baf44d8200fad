"""The dispatch thread: it keeps up, hands over the rest at the stop, and tries a queue again that the disk refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import open_store
from store.config import StoreConfig
from store.dispatch.dispatcher import Dispatcher
from store.engine.live.reput import QUEUE_TRIES, ReputMessageService, RetriedQueues
from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.mapped_file_queue import MappedFileQueue
from store.formats.message import Message
from store.formats.run import Run
from store.structures.commitlog.commit_log import CommitLog
from store.structures.commitlog.scan import ScanRules
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.small_log import START_MS
from tests.support.stores import SMALL, text_message
from tests.support.threads import eventually

SEGMENT_SIZE = 4096


class Collector:
    """Keeps the log offsets it was given; refuses the first `failures` runs."""

    def __init__(self, failures: int = 0) -> None:
        self.log_offsets: list[int] = []
        self.failures = failures
        self.calls = 0

    def dispatch(self, run: Run) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise StoreIOError("no space")
        self.log_offsets += run.columns.log_offset.tolist()


def new_log(folder: Path) -> CommitLog:
    segments = MappedFileQueue(folder, SEGMENT_SIZE, Filesystem(), writable=True)
    return CommitLog(segments, StoreConfig(mapped_file_size_commit_log=SEGMENT_SIZE), lambda: START_MS)


def put(log: CommitLog, count: int) -> list[int]:
    return [log.put(Message("T", bytes(300))).log_offset for _ in range(count)]


def service_on(log: CommitLog, handler: object) -> ReputMessageService:
    return ReputMessageService(Dispatcher(log, [handler], 0, ScanRules()))


def test_the_service_keeps_up_and_hands_over_the_rest_when_it_stops(tmp_path: Path) -> None:
    log, collector = new_log(tmp_path), Collector()
    service = service_on(log, collector)
    service.start()
    places = put(log, 10)
    assert eventually(lambda: len(collector.log_offsets) == 10)
    assert collector.log_offsets == places
    places += put(log, 50)
    service.stop()
    assert collector.log_offsets == places
    assert service.failure is None


def test_what_stops_the_service_is_kept_and_nothing_is_dispatched_after_it(tmp_path: Path) -> None:
    log, broken = new_log(tmp_path), Collector(failures=1)
    service = service_on(log, broken)
    service.start()
    put(log, 1)
    service.stop()
    assert isinstance(service.failure, StoreIOError)
    assert broken.calls == 1


@pytest.mark.parametrize("failures", [0, 1, QUEUE_TRIES - 1])
def test_a_queue_that_the_disk_refused_is_tried_again(tmp_path: Path, failures: int) -> None:
    log, queues = new_log(tmp_path), Collector(failures)
    places = put(log, 3)
    Dispatcher(log, [RetriedQueues(queues, 0)], 0, ScanRules()).catch_up()
    assert queues.log_offsets == places
    assert queues.calls == failures + 1


def test_a_queue_that_the_disk_refuses_thirty_times_is_a_failure(tmp_path: Path) -> None:
    log, queues = new_log(tmp_path), Collector(failures=QUEUE_TRIES)
    put(log, 3)
    with pytest.raises(StoreIOError):
        Dispatcher(log, [RetriedQueues(queues, 0)], 0, ScanRules()).catch_up()
    assert queues.calls == QUEUE_TRIES


def test_a_run_that_was_half_done_when_it_failed_leaves_no_unit_twice(tmp_path: Path) -> None:
    queue_files = [1, 2, 3]

    def is_third_queue_file(name: str, path: object) -> bool:
        if name != "publish" or "consumequeue" not in str(getattr(path, "path", "")) or not queue_files:
            return False
        queue_files.pop()
        return not queue_files

    fs = FaultyFilesystem(when=is_third_queue_file)
    with open_store(tmp_path / "store", settings=SMALL, read_only=False, fs=fs) as store:
        for number in range(70):
            assert store.put(text_message(number)).is_ok
        store.catch_up()
        assert fs.failed is not None
        assert [message.queue_offset for message in _all(store, 70)] == list(range(70))
        assert store.max_offset("T", 0) == 70


def _all(store: object, count: int) -> list[object]:
    found: list[object] = []
    while len(found) < count:
        found += store.get("T", 0, len(found), count).messages
    return found
