"""CommitGroups, compiled and uncompiled: who waits for which flush, what each is answered, who is woken."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

from store import kernels
from store.kernels import commit_groups
from store.kernels.commit_groups import CLOSED, DURABLE, FAILED, NOT_DURABLE, CommitGroups
from tests.support.threads import end_threads, eventually, run_in_threads

PATIENT_MS = 60_000
SIZE = 1 << 16
FAR = 1 << 40
needs_compiled = pytest.mark.skipif(not kernels.COMPILED, reason="kernels run uncompiled")


@pytest.fixture(params=["compiled", "uncompiled"])
def groups(request: pytest.FixtureRequest) -> CommitGroups:
    return kernels.CommitGroups() if request.param == "compiled" else commit_groups.CommitGroups()


@contextmanager
def waiting(groups: CommitGroups, *offsets: int) -> Iterator[dict[int, int]]:
    """Threads that wait for these offsets, all of them before the block begins; what each was answered behind it."""
    answers: dict[int, int] = {}

    def wait(offset: int) -> None:
        answers[offset] = groups.wait(offset, PATIENT_MS)

    before = groups.waiting_count
    threads = [threading.Thread(target=wait, args=(offset,), daemon=True) for offset in offsets]
    for thread in threads:
        thread.start()
    assert eventually(lambda: groups.waiting_count == before + len(offsets))
    yield answers
    end_threads(*threads)


@contextmanager
def file_of(folder: Path, size: int) -> Iterator[int]:
    number = os.open(folder / "file", os.O_RDWR | os.O_CREAT)
    try:
        os.ftruncate(number, size)
        yield number
    finally:
        os.close(number)


def test_there_is_nothing_to_take_before_a_thread_waits(groups: CommitGroups) -> None:
    assert groups.take() == -1
    groups.wait(0, 0)
    assert groups.take() == 0


@pytest.mark.parametrize("timeout_ms", [-1, 0, 20])
def test_a_wait_ends_at_its_time(groups: CommitGroups, timeout_ms: int) -> None:
    assert groups.wait(7, timeout_ms) == NOT_DURABLE
    assert groups.waiting_count == 0


def test_a_group_is_flushed_for_the_last_of_its_offsets_even_when_nobody_waits_any_more(groups: CommitGroups) -> None:
    for offset in (0, 7, 5, 9, 7):
        groups.wait(offset, 0)
    assert groups.take() == 9


def test_a_group_stays_taken_until_it_is_answered_while_the_next_gathers(groups: CommitGroups) -> None:
    groups.wait(7, 0)
    assert groups.take() == 7
    groups.wait(12, 0)
    assert groups.take() == 7
    groups.answer(7)
    assert groups.take() == 12
    groups.fail()
    assert groups.take() == -1


@pytest.mark.parametrize(
    ("flushed_where", "answers"),
    [
        (12, {7: DURABLE, 10: DURABLE, 12: DURABLE}),
        (FAR, {7: DURABLE, 10: DURABLE, 12: DURABLE}),
        (11, {7: DURABLE, 10: DURABLE, 12: NOT_DURABLE}),
        (10, {7: DURABLE, 10: DURABLE, 12: NOT_DURABLE}),
        (0, {7: NOT_DURABLE, 10: NOT_DURABLE, 12: NOT_DURABLE}),
    ],
)
def test_an_answer_reaches_all_of_the_group(groups: CommitGroups, flushed_where: int, answers: dict[int, int]) -> None:
    with waiting(groups, 7, 10, 12) as answered:
        groups.take()
        groups.answer(flushed_where)
    assert answered == answers


def test_an_answer_reaches_nobody_who_came_behind_the_group(groups: CommitGroups) -> None:
    with waiting(groups, 7) as first:
        groups.take()
        with waiting(groups, 12) as second:
            groups.answer(FAR)
            assert eventually(lambda: groups.waiting_count == 1)
            assert (first, second) == ({7: DURABLE}, {})
            groups.take()
            groups.answer(FAR)
        assert second == {12: DURABLE}


def test_a_failure_reaches_all_of_the_group_and_no_other(groups: CommitGroups) -> None:
    with waiting(groups, 7, 10) as failed:
        groups.take()
        groups.answer(8)
        assert eventually(lambda: groups.waiting_count == 0)
    assert failed == {7: DURABLE, 10: NOT_DURABLE}
    with waiting(groups, 20, 21) as failed:
        groups.take()
        groups.fail()
    assert failed == {20: FAILED, 21: FAILED}
    with waiting(groups, 22) as later:
        groups.take()
        groups.answer(22)
    assert later == {22: DURABLE}


def test_a_group_whose_members_gave_up_passes_no_answer_to_the_next(groups: CommitGroups) -> None:
    for offset in range(5):
        assert groups.wait(offset, 0) == NOT_DURABLE
        groups.take()
        groups.answer(-1)
    assert groups.wait(7, 0) == NOT_DURABLE


def test_nobody_joins_behind_the_end_and_who_waits_is_still_answered(groups: CommitGroups) -> None:
    with waiting(groups, 7) as answered:
        groups.close()
        assert groups.wait(8, PATIENT_MS) == CLOSED
        assert groups.take() == 7
        groups.answer(7)
    assert answered == {7: DURABLE}


@pytest.mark.parametrize(
    "wake",
    [lambda groups: groups.ring(), lambda groups: groups.wait(7, 0), lambda groups: (groups.wait(7, 0), groups.take())],
    ids=["bell", "group", "group taken"],
)
@pytest.mark.parametrize("is_asleep", [True, False])
def test_the_flushing_thread_sleeps_until_it_is_woken(
    groups: CommitGroups, wake: Callable[[CommitGroups], object], is_asleep: bool
) -> None:
    sleeper = threading.Thread(target=groups.sleep, args=(PATIENT_MS,), daemon=True)
    if is_asleep:
        sleeper.start()
    wake(groups)
    if not is_asleep:
        sleeper.start()
    end_threads(sleeper)


def test_a_ring_ends_one_sleep(groups: CommitGroups) -> None:
    groups.ring()
    groups.ring()
    groups.sleep(PATIENT_MS)
    for _ in range(3):
        # Ends by its time, and the bell stays in order.
        groups.sleep(1)


def test_many_threads_and_one_that_flushes_lose_no_answer(groups: CommitGroups) -> None:
    answers: list[int] = []
    is_over = threading.Event()

    def put(first: int) -> None:
        for offset in range(first, first + 50):
            answers.append(groups.wait(offset, PATIENT_MS))

    def flush() -> None:
        while not is_over.is_set():
            groups.sleep(PATIENT_MS)
            offset = groups.take()
            if offset >= 0:
                groups.answer(offset)

    flusher = threading.Thread(target=flush, daemon=True)
    flusher.start()
    run_in_threads(*(partial(put, number * 1000) for number in range(16)))
    is_over.set()
    groups.ring()
    end_threads(flusher)
    assert answers == [DURABLE] * 800
    assert groups.waiting_count == 0


class Interrupted(Exception):
    pass


@contextmanager
def signalled(groups: CommitGroups, handler: Callable[[int, FrameType | None], None]) -> Iterator[threading.Thread]:
    """While the main thread waits it gets a signal, and an answer behind it."""
    main, handled = threading.main_thread().ident or 0, threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if not handled.is_set():
            handled.set()
            handler(number, frame)

    def disturb() -> None:
        assert eventually(lambda: groups.waiting_count == 1)
        assert eventually(lambda: handled.is_set() or signal.pthread_kill(main, signal.SIGUSR1))
        groups.take()
        groups.answer(FAR)

    before = signal.signal(signal.SIGUSR1, handle)
    thread = threading.Thread(target=disturb, daemon=True)
    thread.start()
    try:
        yield thread
        end_threads(thread)
    finally:
        # Behind any system call no signal is under way any more.
        os.getppid()
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_whose_handler_returns_ends_no_wait(groups: CommitGroups) -> None:
    with signalled(groups, lambda number, frame: None):
        assert groups.wait(7, PATIENT_MS) == DURABLE


def test_a_wait_ends_by_the_exception_of_a_signals_handler(groups: CommitGroups) -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    with signalled(groups, interrupt), pytest.raises(Interrupted):
        groups.wait(7, PATIENT_MS)
    assert groups.waiting_count == 0
    with waiting(groups, 8) as answered:
        groups.take()
        groups.answer(8)
    assert answered == {8: DURABLE}


# A file flushed without the GIL.


def flush(
    groups: CommitGroups, number: int, *, size: int = SIZE, flushed_where: int = 0, file_end: int = FAR
) -> tuple[int, int, int, int]:
    return groups.flush_file(number, size, flushed_where, file_end, PATIENT_MS)


def test_without_a_group_no_file_is_synced(groups: CommitGroups, tmp_path: Path) -> None:
    with file_of(tmp_path, SIZE) as number:
        assert flush(groups, number, flushed_where=5) == (0, 0, 5, 0)


def test_uncompiled_every_group_is_left_to_the_caller(tmp_path: Path) -> None:
    groups = commit_groups.CommitGroups()
    groups.wait(7, 0)
    with file_of(tmp_path, SIZE) as number:
        assert flush(groups, number) == (0, 0, 0, 0)
    assert groups.take() == 7


LEFT, ANSWERED = False, True


@needs_compiled
@pytest.mark.parametrize(
    ("flushed_where", "file_end", "size", "result", "is_answered"),
    [
        (0, FAR, SIZE, (1, 1, 7, 0), ANSWERED),
        (6, 7, SIZE, (1, 1, 7, 0), ANSWERED),
        (7, 7, SIZE, (1, 0, 7, 0), ANSWERED),
        (9, 20, SIZE, (1, 0, 9, 0), ANSWERED),
        (0, 6, SIZE, (0, 0, 0, 0), LEFT),
        (0, 20, SIZE + 1, (0, 0, 0, 0), LEFT),
    ],
    ids=["open end", "one byte", "durable already", "more durable", "needs the next file", "shortened"],
)
def test_a_group_is_flushed_where_a_sync_of_the_file_is_enough(
    tmp_path: Path,
    flushed_where: int,
    file_end: int,
    size: int,
    result: tuple[int, int, int, int],
    is_answered: bool,
) -> None:
    groups = kernels.CommitGroups()
    groups.wait(7, 0)
    with file_of(tmp_path, SIZE) as number:
        found = flush(groups, number, size=size, flushed_where=flushed_where, file_end=file_end)
    assert found == result
    assert groups.take() == (-1 if is_answered else 7)


@needs_compiled
def test_a_sync_that_fails_leaves_its_group_unanswered_and_tells_why() -> None:
    groups = kernels.CommitGroups()
    reader, writer = os.pipe()
    try:
        with waiting(groups, 7) as answered:
            assert flush(groups, writer) == (0, 0, 0, errno.EINVAL)
            assert (groups.waiting_count, groups.take()) == (1, 7)
            groups.fail()
    finally:
        os.close(reader)
        os.close(writer)
    assert answered == {7: FAILED}


@needs_compiled
def test_the_time_of_a_flush_is_limited(tmp_path: Path) -> None:
    groups = kernels.CommitGroups()
    groups.wait(7, 0)
    with file_of(tmp_path, SIZE) as number:
        assert groups.flush_file(number, SIZE, 0, FAR, 0) == (0, 0, 0, 0)
    assert groups.take() == 7


@needs_compiled
def test_group_after_group_is_flushed_while_threads_put(tmp_path: Path) -> None:
    groups, answers = kernels.CommitGroups(), list[int]()

    def put(offsets: range) -> None:
        answers.extend(groups.wait(offset, PATIENT_MS) for offset in offsets)

    opened = 0
    with file_of(tmp_path, SIZE) as number:
        threads = [threading.Thread(target=put, args=(range(one, 400, 4),), daemon=True) for one in range(1, 5)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            groups.sleep(10)
            opened += flush(groups, number)[0]
        end_threads(*threads)
    assert answers == [DURABLE] * 399
    assert 100 <= opened <= 399
