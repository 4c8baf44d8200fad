"""Signals while an engine for queries starts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Delay Ctrl-C, SIGTERM and SIGHUP until the end of the block; then restore their handlers.

    An interrupted start would leave Spark's JVM, or a query of DuckDB, running.
    Spark installs its own handler for Ctrl-C, and that could interrupt a change halfway. Spark's handler stays only if
    the interpreter's default handler was set before, as in a notebook.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept: list[int] = []

    def keep(number: int, frame: object) -> None:
        kept.append(number)

    # Ignored signals stay ignored, such as SIGHUP under nohup.
    ending = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, keep) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            is_sparks = signal.getsignal(number) is not keep and handler is signal.default_int_handler
            if handler is not None and not is_sparks:
                signal.signal(number, handler)
    if kept:
        signal.raise_signal(kept[0])
