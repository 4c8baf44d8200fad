"""A progress bar with percentage, rate and ETA on stderr.

The bar appears after half a second, even if the work has not reported progress by then.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, TextIO

APPEARS_AFTER_S = 0.5
REDRAW_EVERY_S = 0.1


class Progress:
    """The progress of one task, with a bar on `stream`; None for no bar.

    Rich is imported when the bar appears, so quick commands do not pay for it.
    """

    def __init__(self, title: str, total: int | None, unit: str, stream: TextIO | None) -> None:
        self.title, self.total, self.unit = title, total, unit
        self.done = 0
        self._stream = stream
        self._began = time.monotonic()
        self._next_look = self._began + APPEARS_AFTER_S
        self._bar: Any = None
        self._task: Any = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(APPEARS_AFTER_S, self._draw) if stream is not None else None
        self._is_over = False

    def __enter__(self) -> Progress:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._is_over = True
        if self._bar is not None:
            self._bar.stop()

    def advance(self, amount: int = 1) -> None:
        """Add to the amount done."""
        self.update(self.done + amount)

    def update(self, done: int, total: int | None = None) -> None:
        """Set the amount done so far, and the total; cheap enough to call for every record."""
        self.done = done
        if total is not None:
            self.total = total
        if self._stream is not None and time.monotonic() >= self._next_look:
            self._draw()

    def _draw(self) -> None:
        with self._lock:
            if self._is_over:
                return
            if self._bar is None:
                self._start()
            self._next_look = time.monotonic() + REDRAW_EVERY_S
            self._bar.update(self._task, completed=self.done, total=self.total)

    def _start(self) -> None:
        from rich import progress
        from rich.console import Console

        columns: list[Any] = [
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=None),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.fields[pace].rate}", markup=False),
            progress.TextColumn("{task.fields[pace].remaining}", markup=False),
        ]
        self._bar = progress.Progress(*columns, console=Console(file=self._stream, stderr=True), transient=True)
        self._task = self._bar.add_task(self.title, total=self.total, pace=self)
        self._bar.start()

    @property
    def rate(self) -> str:
        """The amount done per second since the beginning, with its unit."""
        from rmqctl.show import show_bytes

        pace = self.done / max(time.monotonic() - self._began, 1e-3)
        return f"{show_bytes(pace) if self.unit == 'bytes' else f'{pace:,.0f} {self.unit}'}/s"

    @property
    def remaining(self) -> str:
        """The remaining time as H:MM:SS at this rate; dashes while it is unknown."""
        if not self.total or not self.done:
            return "-:--:--"
        passed = time.monotonic() - self._began
        minutes, seconds = divmod(int(passed * max(self.total - self.done, 0) / self.done), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
