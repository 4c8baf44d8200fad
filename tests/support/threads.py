"""Threads of tests: none is waited for without a limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE_S = 60


def run_in_threads(*works: Callable[[], object]) -> None:
    """Run each function in a thread of its own to its end; fail if one does not end.

    The threads are daemons, so a hanging one does not keep the process from ending.
    """
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    end_threads(*threads)


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
