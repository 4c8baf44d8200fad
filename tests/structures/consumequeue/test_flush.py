"""Many queues made durable: each file once, each folder once, and no work for those that have nothing new."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

from store.files import durable
from store.files.durable import FEW
from store.files.filesystem import Descriptor, Filesystem
from store.formats.queue_unit import UNIT_SIZE
from store.layout import StoreLayout
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.consumequeue.flush import flush_queues
from tests.support.small_log import SMALL_CONFIG, UNITS_PER_FILE, SmallLog


class Syncs(Filesystem):
    """Counts the syncs of files and folders, by the path below `root`, and the threads that made them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.threads: set[int] = set()

    def fdatasync(self, descriptor: Descriptor) -> None:
        self._count(descriptor.path)

    def fsync_folder(self, folder: Path) -> None:
        self._count(folder)

    def _count(self, path: Path) -> None:
        with self._lock:
            self.counts[str(path.relative_to(self._root))] += 1
            self.threads.add(threading.get_ident())


@pytest.mark.parametrize(("tries", "flushed"), [(1, 1), (2, 2), (3, 3), (4, 3), (None, 3)])
def test_a_queue_has_at_most_the_tries_of_its_files_flushed(tries: int | None, flushed: int, tmp_path: Path) -> None:
    log, fs = SmallLog(), Syncs(tmp_path)
    queues = ConsumeQueueStore(StoreLayout(tmp_path), SMALL_CONFIG, fs, writable=True)
    log.put_many(2 * UNITS_PER_FILE + 1)
    log.dispatch_to(queues)
    (queue,) = queues
    flush_queues(queues, tries=tries)
    ends = [0, UNITS_PER_FILE * UNIT_SIZE, 2 * UNITS_PER_FILE * UNIT_SIZE, queue.files.max_offset]
    assert queue.files.flushed_where == ends[flushed]


@pytest.mark.parametrize("count", [1, FEW, FEW + 1])
def test_new_queues_cost_one_sync_of_each_file_and_folder(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "QUICK_S", -1.0)
    log, fs = SmallLog(), Syncs(tmp_path)
    queues = ConsumeQueueStore(StoreLayout(tmp_path), SMALL_CONFIG, fs, writable=True)
    for queue_id in range(count):
        log.put("T", queue_id)
    log.dispatch_to(queues)
    flush_queues(queues)
    folders = {".", "consumequeue", "consumequeue/T"} | {f"consumequeue/T/{number}" for number in range(count)}
    files = {f"consumequeue/T/{number}/{0:020d}" for number in range(count)}
    assert fs.counts == Counter(folders | files)
    assert (fs.threads == {threading.get_ident()}) == (count <= FEW)
    flush_queues(queues)
    assert fs.counts == Counter(folders | files)
    log.put("T", 0)
    log.dispatch_to(queues)
    flush_queues(queues)
    assert fs.counts == Counter(folders | files) + Counter([f"consumequeue/T/0/{0:020d}"])
