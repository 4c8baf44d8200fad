"""Timetable: the timed tasks of a live store, in one thread, by a clock that a test may move.

A task first runs `first_ms` after the start, then `period_ms` after the end of each run. A failed task runs again at
its next time; its error is a finding. If too many files are open, it runs again at once.

Source: DefaultMessageStore.addScheduleTask (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from store.engine.live.service import ServiceThread
from store.errors import StoreError, is_passing

TICK_MS = 100


@dataclass(slots=True)
class TimedTask:
    """A task and its times."""

    name: str
    run: Callable[[], object]
    first_ms: int
    period_ms: int
    next_ms: int = field(init=False)


class Timetable(ServiceThread):
    """Runs `tasks` when they are due by `clock`."""

    def __init__(self, tasks: Sequence[TimedTask], clock: Callable[[], int]) -> None:
        super().__init__(TICK_MS)
        self.findings: list[str] = []
        """Errors of tasks, each once."""
        self._tasks = tasks
        self._clock = clock
        began_ms = clock()
        for task in tasks:
            task.next_ms = began_ms + task.first_ms

    def work(self) -> None:
        for task in self._tasks:
            if self._clock() >= task.next_ms:
                self._run_task(task)
                task.next_ms = self._clock() + task.period_ms

    def _run_task(self, task: TimedTask) -> None:
        try:
            task.run()
        except StoreError as error:
            if is_passing(error):
                raise
            finding = f"{task.name}: {error}"
            if finding not in self.findings:
                self.findings.append(finding)
