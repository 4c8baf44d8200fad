"""Private memory of a process while it works: RssAnon of /proc/PID/status, which leaves mapped pages of files out."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

SAMPLE_INTERVAL_S = 0.01


class PeakMemory:
    """Inside the block a thread takes samples of `pid`; afterwards `peak_bytes` is the greatest."""

    def __init__(self, pid: int | None = None) -> None:
        self.peak_bytes = 0
        self._status = Path(f"/proc/{pid or os.getpid()}/status")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, private_bytes(self._status))
            if self._over.wait(SAMPLE_INTERVAL_S):
                return


def private_bytes(status: Path) -> int:
    """RssAnon of a process, 0 when it has ended."""
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:")), 0)
