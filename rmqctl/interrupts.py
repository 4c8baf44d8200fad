"""Ctrl-C, SIGTERM and SIGHUP interrupt the main thread, but not in the middle of a change."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


class Interrupts:
    """Signals of one run.

    Inside deferred() the signal is kept until the block ends. After the first signal further ones are ignored, so that
    the store can be closed cleanly. `raised` says whether one has interrupted the run.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._pending = False
        self.raised = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Handle the signals inside the block."""
        try:
            before = {number: signal.signal(number, self._handle) for number in _numbers()}
        except ValueError:
            # Python takes handlers in the main thread only; here the caller's own handlers stay.
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Run a block that a signal must not cut in two."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if self._pending and not self._depth:
            self._pending = False
            self._raise()

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """Run a block inside of deferred() that a signal may end, also one that came before."""
        depth, self._depth = self._depth, 0
        try:
            if self._pending:
                self._pending = False
                self._raise()
            yield
        finally:
            self._depth = depth

    def asked(self) -> bool:
        """Tell whether a signal has come inside of deferred(); the block then raises nothing."""
        self.raised, self._pending = self.raised or self._pending, False
        return self.raised

    def _handle(self, number: int, frame: object) -> None:
        if self._depth:
            self._pending = True
        else:
            self._raise()

    def _raise(self) -> None:
        if not self.raised:
            self.raised = True
            raise KeyboardInterrupt


def _numbers() -> list[signal.Signals]:
    """Return the signals that end a run; a lost terminal is none for a command that nohup started."""
    ending = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        ending.append(signal.SIGHUP)
    return ending
