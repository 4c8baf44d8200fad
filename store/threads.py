"""Worker: a thread to wait for, also when Ctrl-C comes meanwhile.

After an interrupt of threading.Thread.join(), Python 3.11 and 3.12 count the thread as ended while it still runs. The
caller would release what the thread uses. Source: threading.Thread._wait_for_tstate_lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Worker(threading.Thread):
    """A thread that calls `work` once.

    daemon  whether the process may end before it
    """

    def __init__(self, work: Callable[[], None], name: str, *, daemon: bool = False) -> None:
        super().__init__(target=work, name=name, daemon=daemon)
        self._has_ended = threading.Event()

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._has_ended.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end, at most `timeout` seconds; a thread that was never started has ended.

        An interrupt is raised after the end; at once if there is a timeout.
        """
        try:
            self._wait(timeout)
        except BaseException:
            if timeout is None:
                self._wait(None)
            raise

    def is_alive(self) -> bool:
        return self.ident is not None and not self._has_ended.is_set()

    def _wait(self, timeout: float | None) -> None:
        if self.ident is not None:
            self._has_ended.wait(timeout)
