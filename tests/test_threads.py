"""A thread is waited for to its end, also when a signal interrupts the wait."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from store import kernels
from store.dispatch.fan_out import FanOut
from store.threads import Worker

WORKS_S, INTERRUPT_AFTER_S = 0.4, 0.1


class Interrupt(BaseException):
    """A signal's, as Ctrl-C raises KeyboardInterrupt."""


@pytest.fixture
def interrupted() -> Iterator[None]:
    """The main thread is interrupted soon."""

    def interrupt(number: int, frame: object) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(INTERRUPT_AFTER_S, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    timer.start()
    yield
    timer.cancel()
    signal.signal(signal.SIGUSR1, before)


def test_an_interrupt_of_a_wait_is_raised_after_the_end(interrupted: None) -> None:
    ended: list[str] = []
    worker = Worker(lambda: ended.append(str(time.sleep(WORKS_S))), "work")
    worker.start()
    with pytest.raises(Interrupt):
        worker.join()
    assert (ended, worker.is_alive()) == (["None"], False)


def test_an_interrupt_of_a_wait_with_a_limit_is_raised_at_once_and_the_thread_counts_as_running(
    interrupted: None,
) -> None:
    go_on = threading.Event()
    worker = Worker(lambda: go_on.wait() and None, "work")  # type: ignore[func-returns-value]
    worker.start()
    with pytest.raises(Interrupt):
        worker.join(60)
    assert worker.is_alive()
    go_on.set()
    worker.join()
    assert not worker.is_alive()


def test_a_thread_that_was_never_started_has_ended() -> None:
    worker = Worker(lambda: None, "work")
    worker.join()
    assert not worker.is_alive()


def test_builders_have_ended_when_an_interrupt_leaves_their_block(
    interrupted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "COMPILED", True)
    begun, done = list[object](), list[object]()

    class Slow:
        def dispatch(self, run: object) -> None:
            begun.append(run)
            time.sleep(WORKS_S)
            done.append(run)

    class Quick:
        def dispatch(self, run: object) -> None:
            pass

    def build() -> None:
        with FanOut([Slow(), Quick()]) as builders:
            for number in range(3):
                builders.dispatch(number)  # type: ignore[arg-type]

    with pytest.raises(Interrupt):
        build()
    assert (begun, done) == ([0], [0])
