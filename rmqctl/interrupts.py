"""Interrupts of the main thread by Ctrl-C, SIGTERM and SIGHUP, but not in the middle of a change."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


class Interrupts:
    """Signals of one run.

    Inside deferred() a signal waits until the block ends. After the first signal further ones are ignored, so that
    the store can be closed cleanly. `raised` is whether a signal has interrupted the run.
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
            # Python sets handlers in the main thread only; in another the caller's handlers stay.
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Run a block to its end before a signal interrupts."""
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
        """Run a block inside of deferred() that a signal may interrupt, also one from before the block."""
        depth, self._depth = self._depth, 0
        try:
            if self._pending:
                self._pending = False
                self._raise()
            yield
        finally:
            self._depth = depth

    def asked(self) -> bool:
        """Return whether a signal has come inside of deferred(); the block's end then does not raise."""
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
    """Return the signals that end a run; without SIGHUP under nohup."""
    ending = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        ending.append(signal.SIGHUP)
    return ending
