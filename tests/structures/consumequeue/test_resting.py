"""Queues of one page rest until they are asked for; whatever is done to all queues leaves them as it leaves others."""

from __future__ import annotations

import itertools
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store import Message, MessageStore, open_store
from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.config import StoreConfig
from store.files import mapped_file
from store.files.filesystem import Filesystem
from store.formats.queue_unit import PRE_BLANK, QueueUnit
from store.layout import StoreLayout
from store.structures.consumequeue import queue_set
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.consumequeue.resting import RestingQueue, ends_of_page
from tests.support.many_queues import many_queues, queue_name
from tests.support.snapshots import snapshot

QUEUES, MESSAGES = 40, 130
UNIT = [QueueUnit(at, 100, 7).encode() for at in (1000, 1200, 1100)]
STALE = bytes(20) + UNIT[0]


@pytest.mark.parametrize(
    ("page", "ends"),
    [
        (b"".join(UNIT).ljust(4096, b"\0"), RestingQueue(3, 1200, 1200, b"".join(UNIT))),
        ((UNIT[0] + STALE).ljust(4096, b"\0"), None),
        (bytes(4096), None),
        (b"".join([UNIT[0]] * 205)[:4096], None),
        ((PRE_BLANK.encode() + UNIT[0]).ljust(4096, b"\0"), None),
        (b"", None),
    ],
    ids=["some units", "a unit behind zeros", "none", "a full page", "a beginning in the middle", "an empty file"],
)
def test_a_queue_rests_if_its_page_tells_where_it_ends(page: bytes, ends: RestingQueue | None) -> None:
    assert ends_of_page(page) == ends


@pytest.fixture(scope="module")
def store_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return many_queues(tmp_path_factory.mktemp("many") / "store", QUEUES, MESSAGES, queue_file_size=6000)


def loaded(root: Path, line: BrokerLine = LINE_4_9) -> ConsumeQueueStore:
    config = StoreConfig(mapped_file_size_consume_queue=6000)
    queues = ConsumeQueueStore(StoreLayout(root), config, Filesystem(), writable=False)
    queues.load(line)
    return queues


def without_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_set, "read_resting", lambda *arguments: None)


def ends(queues: ConsumeQueueStore) -> list[tuple[str, int, int, int, int]]:
    return sorted((q.topic, q.queue_id, q.min_offset, q.max_offset, q.max_physic_offset) for q in queues)


DONE_TO_ALL: dict[str, Callable[[ConsumeQueueStore], object]] = {
    "recovered": lambda queues: None,
    "cut in the middle": lambda queues: queues.truncate_dirty(queues.max_physic_offset // 2),
    "cut at the end": lambda queues: queues.truncate_dirty(queues.max_physic_offset),
    "woken in part": lambda queues: queues.find(*queue_name(0)),
    "begun in the middle": lambda queues: queues.correct_min_offsets(queues.max_physic_offset // 2),
    "begun behind all": lambda queues: queues.correct_min_offsets(queues.max_physic_offset),
}


@pytest.mark.turns(3)
@pytest.mark.parametrize("line", [LINE_4_9, LINE_5_3], ids=str)
@pytest.mark.parametrize("done", DONE_TO_ALL)
def test_what_is_done_to_all_queues_leaves_resting_ones_as_it_leaves_others(
    store_root: Path, done: str, line: BrokerLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    resting = loaded(store_root, line)
    assert not resting.awake()
    without_rest(monkeypatch)
    awake = loaded(store_root, line)
    assert awake.recover() == resting.recover()
    for queues in (resting, awake):
        DONE_TO_ALL[done](queues)
    assert dict(resting.next_offsets()) == dict(awake.next_offsets())
    assert resting.max_physic_offset == awake.max_physic_offset
    assert sorted(resting.states()) == sorted(awake.states())
    assert ends(resting) == ends(awake)


def test_a_store_is_opened_for_writing_without_waking_a_queue(store_root: Path) -> None:
    with open_store(store_root, read_only=False) as store:
        assert store.opened.queues.awake() == []
        assert len(store.topics()) * len(store.queue_ids("T0")) == QUEUES


def test_an_opening_reads_each_queue_once_and_those_of_a_changed_topic_again(tmp_path: Path) -> None:
    root = many_queues(tmp_path / "store", QUEUES, MESSAGES, queue_file_size=6000)
    fs = ReadStarts()
    open_store(root, read_only=False, fs=fs).close()
    assert fs.count == QUEUES
    shutil.rmtree(root / "consumequeue" / "T0" / "3")
    fs = ReadStarts()
    with open_store(root, read_only=False, fs=fs) as store:
        assert fs.count > QUEUES
        assert [store.max_offset(*queue_name(number)) for number in (2, 3)] == [4, 4]


class ReadStarts(Filesystem):
    """Counts the first pages that are read."""

    count = 0

    def read_start(self, path: str, size: int) -> bytes:
        self.count += 1
        return super().read_start(path, size)


def test_a_put_goes_on_at_the_offset_of_a_resting_queue_and_wakes_it_alone(tmp_path: Path) -> None:
    root = many_queues(tmp_path / "store", QUEUES, MESSAGES, queue_file_size=6000)
    topic, queue_id = queue_name(3)
    with open_store(root, read_only=False) as store:
        result = store.put(Message.of(topic, "one more", queue_id=queue_id))
        store.catch_up()
        assert [queue.queue_id for queue in store.opened.queues.awake()] == [queue_id]
        assert result.queue_offset == MESSAGES // QUEUES + 1
        assert store.max_offset(topic, queue_id) == result.queue_offset + 1


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.usefixtures("few_descriptors")
def test_two_thousand_queues_need_neither_as_many_files_nor_as_many_maps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 2000
    monkeypatch.setattr(mapped_file._mapped, "most", 100)
    root = many_queues(tmp_path / "store", count, 2 * count, queue_file_size=6000)
    with open_store(root, read_only=False) as store:
        for number in range(count):
            topic, queue_id = queue_name(number)
            assert store.put(Message.of(topic, "third", queue_id=queue_id)).queue_offset == 2
        store.catch_up()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 256
    assert_whole(root, count)
    before = snapshot(root / "consumequeue")
    (root / "abort").touch()
    open_store(root, read_only=False, recover=True).close()
    assert snapshot(root / "consumequeue") == before


def assert_whole(root: Path, count: int) -> None:
    with open_store(root) as store:
        for number in itertools.chain(range(0, count, 97), [count - 1]):
            assert bodies(store, *queue_name(number)) == [b"%d" % number, b"%d" % (number + count), b"third"]


def bodies(store: MessageStore, topic: str, queue_id: int) -> list[bytes]:
    return [message.body for message in store.messages(topic, queue_id)]
