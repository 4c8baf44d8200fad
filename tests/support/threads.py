"""Threads of tests: none is waited for without a limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE_S = 60


def run_in_threads(*works: Callable[[], object]) -> None:
    """Run each function in a thread of its own to its end; fail if one does not end, or as the first one that fails.

    The threads are daemons, so a hanging one does not keep the process from ending.
    """
    failures: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    end_threads(*threads)
    if failures:
        raise failures[0]


def end_threads(*threads: threading.Thread) -> None:
    """Wait for threads that are about to end."""
    deadline = time.monotonic() + PATIENCE_S
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "a thread does not end"


def eventually(condition: Callable[[], object], seconds: float = PATIENCE_S) -> bool:
    """Return whether the condition becomes true before the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False
