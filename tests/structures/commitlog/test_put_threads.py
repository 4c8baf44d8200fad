"""Several threads that put into one log: no record over another, queue offsets without gaps, no lock between them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from store import Message, MessageStore, PutResult, open_store
from store.formats.run import Run
from store.structures.commitlog.bulk import MessageColumns
from store.structures.commitlog.scan import VERIFYING
from tests.support.stores import SMALL, Clock, text_message
from tests.support.threads import end_threads, run_in_threads

THREADS, COUNT = 6, 400
SETTINGS = {**SMALL, "mappedFileSizeConsumeQueue": 100_000}


def single(store: MessageStore, numbers: range) -> list[PutResult]:
    return [store.put(text_message(number, queue_id=number % 2)) for number in numbers]


def batches(store: MessageStore, numbers: range) -> list[PutResult]:
    parts = [numbers[start : start + 7] for start in range(0, len(numbers), 7)]
    return [store.put_batch([text_message(number) for number in part]) for part in parts]


def bulk(store: MessageStore, numbers: range) -> list[PutResult]:
    for start in range(0, len(numbers), 50):
        result = store.put_many(MessageColumns.of([text_message(number) for number in numbers[start : start + 50]]))
        assert not result.refused
    return []


Work = Callable[[MessageStore, range], list[PutResult]]


@pytest.fixture
def impatient() -> object:
    """Threads change as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield None
    sys.setswitchinterval(before)


@pytest.mark.turns(4)
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("works", [(single,), (single, batches), (single, bulk), (single, batches, bulk)])
def test_every_record_is_whole_and_queue_offsets_have_no_gaps(tmp_path: Path, works: tuple[Work, ...]) -> None:
    results: list[PutResult] = []

    def work(store: MessageStore, number: int) -> None:
        numbers = range(number * COUNT, (number + 1) * COUNT)
        results.extend(works[number % len(works)](store, numbers))

    with open_store(tmp_path / "store", settings=SETTINGS, read_only=False) as store:
        run_in_threads(*[partial(work, store, number) for number in range(THREADS)])
        assert all(result.is_ok for result in results)
        runs = [step for step in store.opened.log.scan(rules=VERIFYING) if isinstance(step, Run)]
        assert sum(run.count for run in runs) == THREADS * COUNT
        for result in results:
            stored = store.lookup(result.log_offset)
            assert stored is not None
            assert (stored.queue_offset, stored.store_timestamp_ms) == (result.queue_offset, result.store_timestamp_ms)
        times = [time for run in runs for time in run.columns.store_timestamp_ms.tolist()]
        assert times == sorted(times)
        store.catch_up()
        assert store.max_offset("T", 0) + store.max_offset("T", 1) == THREADS * COUNT
    with open_store(tmp_path / "store") as store:
        for queue_id in (0, 1):
            offsets = [message.queue_offset for message in store.messages("T", queue_id)]
            assert offsets == list(range(len(offsets)))


@pytest.mark.leaves_damage  # times that go back
def test_a_put_goes_on_when_the_clock_went_back(tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path / "store", settings=SETTINGS, read_only=False, clock=clock) as store:
        times = []
        for step_ms in (0, 5, -3600_000, 1, 0):
            clock.now_ms += step_ms
            times.append(store.put(Message("T", b"x")).store_timestamp_ms - clock.now_ms)
    assert times == [0] * 5


def test_a_put_waits_while_another_has_the_log_alone(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", settings=SETTINGS, read_only=False) as store:
        store.put(Message("T", b"first"))
        done = threading.Event()
        with store.opened.log.locked():
            thread = threading.Thread(target=lambda: (store.put(Message("T", b"x")), done.set()), daemon=True)
            thread.start()
            assert not done.wait(0.05)
        end_threads(thread)
        assert done.is_set()


def test_uncompiled_kernels_put_the_same_bytes_from_several_threads(tmp_path: Path) -> None:
    program = f"""
import threading, sys
from store import Message, open_store
sys.setswitchinterval(1e-6)
with open_store({str(tmp_path / "store")!r}, settings={SETTINGS!r}, read_only=False) as store:
    put = lambda: [store.put(Message("T", b"body")) for _ in range(50)]
    threads = [threading.Thread(target=put) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""
    environment = {"RMQCTL_NO_EXTENSIONS": "1", "PATH": "/usr/bin:/bin"}
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", program], cwd=root, env=environment, check=True, timeout=120)
    with open_store(tmp_path / "store") as store:
        assert [message.queue_offset for message in store.messages("T", 0)] == list(range(200))
