"""Progress on a terminal, from the first half second of a command on.

Opening   one line until the first bar, while the engine is imported and the store opened
Progress  a bar with percentage, rate and ETA, even if the work has not reported progress yet
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

APPEARS_AFTER_S = 0.5
REDRAW_EVERY_S = 0.1
LEAST_WORK_S = 0.1
"""Work as short as this has no bar, even if the command began long before it."""


_CLEARED_LINE = "\r\x1b[K"


class Opening:
    """A line on `stream` that counts seconds, from half a second after the command's begin until `end`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for seconds in itertools.count():
            if self._is_over.wait(1 if seconds else APPEARS_AFTER_S):
                if seconds:
                    self._write(_CLEARED_LINE)
                return
            self._write(f"\ropening the store{f', {seconds} s' if seconds else ''}")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def end(self) -> None:
        """Clear the line and show no more."""
        self._is_over.set()
        self._thread.join()


class Progress:
    """The progress of one task, with a bar on `stream`; None for no bar.

    Rich is imported when the bar appears, so quick commands do not pay for it.

    since  the moment from which half a second is counted, such as the command's begin; None for now
    clear  clears the line of Opening before the bar appears
    """

    def __init__(
        self,
        title: str,
        total: int | None,
        unit: str,
        stream: TextIO | None,
        *,
        since: float | None = None,
        clear: Callable[[], None] = lambda: None,
    ) -> None:
        self.title, self.total, self.unit = title, total, unit
        self.done = 0
        self._stream = stream
        self._began = time.monotonic()
        passed = self._began - (self._began if since is None else since)
        delay = max(LEAST_WORK_S, APPEARS_AFTER_S - passed)
        self._next_look = self._began + delay
        self._clear = clear
        self._bar: Any = None
        self._task: Any = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(delay, self._draw) if stream is not None else None
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
            self._bar.update(self._task, description=self.title, completed=self.done, total=self.total)

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
        self._clear()
        self._bar.start()

    @property
    def rate(self) -> str:
        """The amount done per second, with its unit; the seconds passed while nothing is done."""
        from rmqctl.show import show_bytes

        passed = time.monotonic() - self._began
        if not self.done:
            return f"{int(passed)} s"
        pace = self.done / max(passed, 1e-3)
        return f"{show_bytes(pace) if self.unit == 'bytes' else f'{pace:,.0f} {self.unit}'}/s"

    @property
    def remaining(self) -> str:
        """The remaining time as H:MM:SS; dashes without a total, empty while nothing is done."""
        if not self.total or not self.done:
            return "-:--:--" if self.done else ""
        passed = time.monotonic() - self._began
        minutes, seconds = divmod(int(passed * max(self.total - self.done, 0) / self.done), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
