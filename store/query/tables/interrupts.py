"""Signals while an engine for queries starts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Hold Ctrl-C, SIGTERM and SIGHUP back until the block is over.

    Afterwards they are handled as before.

    An interrupted start would leave Spark's JVM running, or a query of DuckDB running.
    Spark takes Ctrl-C over, which would cut a change in two; Spark may keep Ctrl-C only where the interpreter's own
    handler was set, as in a notebook.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept: list[int] = []

    def keep(number: int, frame: object) -> None:
        kept.append(number)

    # What is ignored stays so, as the loss of the terminal under nohup.
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
