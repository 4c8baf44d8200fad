"""Signals wait while an engine starts; their handlers are restored."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from store.query.tables.interrupts import interrupts_wait

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Restore the handlers of the test's process."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_waits_for_the_end_of_the_block(number: int) -> None:
    met: list[object] = []
    own = lambda number, frame: met.append(number)  # noqa: E731
    signal.signal(number, own)
    with interrupts_wait():
        signal.raise_signal(number)
        signal.raise_signal(number)
        met.append("inside")
    assert (met, signal.getsignal(number)) == (["inside", number], own)


def test_of_several_signals_the_first_is_raised_at_the_end() -> None:
    met: list[int] = []
    for number in NUMBERS:
        signal.signal(number, lambda number, frame: met.append(number))
    with interrupts_wait():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert met == [signal.SIGTERM]


def sparks(number: int, frame: object) -> None:
    """The handler that an engine installs."""


def own(number: int, frame: object) -> None:
    """The handler of a command."""


@pytest.mark.parametrize(
    ("before", "is_installed", "after"),
    [
        (own, True, own),
        (own, False, own),
        (signal.default_int_handler, True, sparks),
        (signal.default_int_handler, False, signal.default_int_handler),
        (signal.SIG_IGN, False, signal.SIG_IGN),
        (signal.SIG_DFL, True, signal.SIG_DFL),
    ],
)
def test_an_engine_s_handler_stays_in_place_of_the_interpreter_s_alone(
    before: Any, is_installed: bool, after: Callable[..., None]
) -> None:
    signal.signal(signal.SIGINT, before)
    with interrupts_wait():
        if is_installed:
            signal.signal(signal.SIGINT, sparks)
    assert signal.getsignal(signal.SIGINT) is after


def test_an_ignored_signal_stays_ignored_and_another_thread_changes_none() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupts_wait():
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    seen: list[object] = []

    def in_thread() -> None:
        with interrupts_wait():
            seen.append(signal.getsignal(signal.SIGINT))

    signal.signal(signal.SIGINT, own)
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert seen == [own]
