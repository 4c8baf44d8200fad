"""A progress bar with rate and ETA on stderr.

The bar appears only when the work has taken longer than a second.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, TextIO

APPEARS_AFTER_S = 1.0
REDRAW_EVERY_S = 0.1


class Progress:
    """Counts work that is done.

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

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._draw()
            self._bar.stop()

    def advance(self, amount: int = 1) -> None:
        """So much more is done."""
        self.update(self.done + amount)

    def update(self, done: int, total: int | None = None) -> None:
        """So much is done in all; cheap enough to call for every record."""
        self.done = done
        if total is not None:
            self.total = total
        if self._stream is not None and time.monotonic() >= self._next_look:
            self._draw()

    def _draw(self) -> None:
        if self._bar is None:
            self._start()
        self._next_look = time.monotonic() + REDRAW_EVERY_S
        self._bar.update(self._task, completed=self.done, total=self.total)

    def _start(self) -> None:
        from rich import progress
        from rich.console import Console

        is_bytes = self.unit == "bytes"
        columns: list[Any] = [
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=None),
            progress.TaskProgressColumn(),
            progress.TransferSpeedColumn() if is_bytes else _rate_column(self.unit),
            progress.TimeRemainingColumn(),
        ]
        console = Console(file=self._stream, stderr=True)
        self._bar = progress.Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task(self.title, total=self.total)
        # The rate counts from the beginning of the work, not from the bar's appearance.
        self._bar.tasks[0].start_time = self._bar.get_time() - (time.monotonic() - self._began)
        self._bar.start()


def _rate_column(unit: str) -> Any:
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class RateColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.finished_speed or task.speed or 0:,.0f} {unit}/s")

    return RateColumn()
