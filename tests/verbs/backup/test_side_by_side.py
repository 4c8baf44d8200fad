"""Segments copied side by side: the same backup and store, in less time."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from store.errors import StoreIOError
from store.verbs.backup import side_by_side
from store.verbs.backup.side_by_side import LEAST_BYTES, SideBySide
from tests.support.bad_sectors import BadSectors
from tests.support.stores import make_store
from tests.support.threads import eventually
from tests.verbs.backup.backups import back_up, fingerprint, restore


def new_work() -> tuple[SideBySide, list[tuple[int, int]]]:
    told: list[tuple[int, int]] = []
    return SideBySide(100, lambda *done: told.append(done)), told


def test_two_large_segments_are_copied_at_once_and_come_in_their_order() -> None:
    side, _ = new_work()
    both = threading.Barrier(2, timeout=60)

    def work(number: int) -> int:
        both.wait()
        time.sleep(0.02 * (number % 2 == 0))
        return number

    assert list(side.map(work, [0, 1, 2, 3], LEAST_BYTES)) == [0, 1, 2, 3]


@pytest.mark.parametrize(("count", "size", "thread_count"), [
    (1, LEAST_BYTES, 0), (2, LEAST_BYTES - 1, 0), (2, LEAST_BYTES, 2), (3, LEAST_BYTES, 2),
])  # fmt: skip
def test_one_segment_and_small_ones_are_copied_in_the_callers_thread(count: int, size: int, thread_count: int) -> None:
    side, threads, ready = new_work()[0], set[int](), threading.Barrier(2, timeout=60)

    def work(number: int) -> None:
        threads.add(threading.get_ident())
        if thread_count and number < 2:
            ready.wait()

    list(side.map(work, range(count), size))
    assert len(threads - {threading.get_ident()}) == thread_count


def test_bytes_of_all_threads_are_counted_once() -> None:
    side, told = new_work()
    list(side.map(lambda number: [side.tell(1) for _ in range(25)], range(4), LEAST_BYTES))
    assert told == [(done + 1, 100) for done in range(100)]


def test_a_failed_copy_ends_the_other_thread_and_begins_no_more() -> None:
    side, begun = new_work()[0], list[int]()
    ended: list[str] = []

    def work(number: int) -> None:
        begun.append(number)
        if number == 0:
            assert eventually(lambda: 1 in begun)
            raise OSError("a device error")
        try:
            while True:
                side.tell(0)
                time.sleep(0.001)
        except StoreIOError as error:
            ended.append(error.reason)
            raise

    with pytest.raises(OSError, match="a device error"):
        list(side.map(work, range(9), LEAST_BYTES))
    # The thread of the failed copy may take one more before the others are called off.
    assert set(ended) == {"the work was given up"}
    assert len(begun) <= 3


def test_a_backup_and_its_restored_store_are_the_same_either_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, fs = make_store(tmp_path / "store", 400), BadSectors({f"{16384:020d}": {1}})
    one_by_one = back_up(root, tmp_path / "backups"), back_up(root, tmp_path / "zeros", fs=fs)
    monkeypatch.setattr(side_by_side, "LEAST_BYTES", 0)
    at_once = back_up(root, tmp_path / "backups2"), back_up(root, tmp_path / "zeros2", fs=fs)
    for made, again in zip(one_by_one, at_once, strict=True):
        assert (made.files, made.notes, len(made.segments)) == (again.files, again.notes, 5)
    assert [len(one.notes) for one in one_by_one] == [0, 1]
    assert restore(tmp_path / "backups2", tmp_path / "new").findings == []
    assert fingerprint(tmp_path / "new") == fingerprint(root)
