"""The running flags: the broker's numbers, and the calls that each refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import open_store
from store.engine.live.reput import INDEX_TRIES, QUEUE_TRIES, RetriedIndex, RetriedQueues
from store.engine.live.running_flags import RunningFlag, RunningFlags
from store.errors import StoreClosed, StoreIOError
from store.files.filesystem import Filesystem
from store.formats.run import Run
from store.structures.commitlog.put_result import PutStatus
from tests.support.devices import FullDisk
from tests.support.stores import SMALL, Clock, text_message


@pytest.mark.parametrize(
    ("flag", "number", "refuses_puts"),
    [
        (RunningFlag.NOT_READABLE, 1, False),
        (RunningFlag.NOT_WRITEABLE, 2, True),
        (RunningFlag.WRITE_LOGICS_QUEUE_ERROR, 4, True),
        (RunningFlag.WRITE_INDEX_FILE_ERROR, 8, True),
        (RunningFlag.DISK_FULL, 16, True),
        (RunningFlag.FENCED, 32, True),
        (RunningFlag.LOGIC_DISK_FULL, 64, True),
    ],
)
def test_each_bit_refuses_its_calls_until_it_is_cleared(
    flag: RunningFlag, number: int, refuses_puts: bool, tmp_path: Path
) -> None:
    with open_store(tmp_path / "store", read_only=False, settings=SMALL, clock=Clock()) as store:
        store.flags.set(flag, "for this reason")
        assert store.flags.bits == number
        answer = store.put(text_message(1))
        assert (answer.status is PutStatus.SERVICE_NOT_AVAILABLE, answer.reason) == (
            refuses_puts,
            "for this reason" if refuses_puts else "",
        )
        if flag is RunningFlag.NOT_READABLE:
            with pytest.raises(StoreClosed, match="NOT_READABLE"):
                store.get("T", 0, 0)
        store.flags.clear(flag)
        assert (store.flags.bits, store.put(text_message(2)).is_ok) == (0, True)
        store.get("T", 0, 0)


class Refusing:
    """Queues, or an index, that the disk refuses every time."""

    def __init__(self) -> None:
        self.calls = 0

    def dispatch(self, run: Run) -> None:
        self.calls += 1
        raise StoreIOError("no space")


def test_a_queue_that_is_refused_thirty_times_sets_its_bit() -> None:
    flags, queues = RunningFlags(), Refusing()
    with pytest.raises(StoreIOError):
        RetriedQueues(queues, 0, flags=flags).dispatch(None)
    assert (queues.calls, flags.bits) == (QUEUE_TRIES, RunningFlag.WRITE_LOGICS_QUEUE_ERROR)


def test_an_index_file_that_cannot_be_created_three_times_sets_its_bit(tmp_path: Path) -> None:
    class NoIndex(Filesystem):
        tries = 0

        def create_file(self, path, size, **named):
            if path.parent.name == "index":
                self.tries += 1
                raise StoreIOError("no space", file=path)
            return super().create_file(path, size, **named)

    fs = NoIndex()
    store = open_store(tmp_path / "store", read_only=False, settings=SMALL, fs=fs)
    RetriedIndex(store.opened.index, 0, flags=store.flags)
    store.put(text_message(1))
    with pytest.raises(StoreIOError):
        store.catch_up()
    assert (fs.tries, store.flags.bits) == (INDEX_TRIES, RunningFlag.WRITE_INDEX_FILE_ERROR)
    for refused in (lambda: store.put(text_message(2)), store.close):
        with pytest.raises(StoreIOError):
            refused()
    assert (tmp_path / "store" / "abort").exists()


@pytest.mark.parametrize("services", [None, ()])
def test_only_a_served_store_keeps_its_abort_marker_while_a_flag_refuses_puts(
    services: tuple[str, ...] | None, tmp_path: Path
) -> None:
    with open_store(tmp_path / "store", read_only=False, settings=SMALL, services=services, fs=FullDisk(0.95)) as store:
        assert RunningFlag.DISK_FULL in store.flags
    assert (tmp_path / "store" / "abort").exists() == (services is not None)


def test_a_queue_that_takes_the_run_after_all_clears_its_own_bit_and_no_other() -> None:
    flags, queues = RunningFlags(), Refusing()
    retried = RetriedQueues(queues, 0, flags=flags)
    flags.set(RunningFlag.FENCED)
    with pytest.raises(StoreIOError):
        retried.dispatch(None)
    queues.dispatch = lambda run: None
    retried.dispatch(None)
    assert flags.bits == RunningFlag.FENCED
    flags.set(RunningFlag.WRITE_LOGICS_QUEUE_ERROR)
    retried.dispatch(None)
    assert flags.bits == RunningFlag.FENCED | RunningFlag.WRITE_LOGICS_QUEUE_ERROR
