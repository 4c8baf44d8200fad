"""DiskCheckService: refuses puts while the log's partition is nearly full, or after a service failed.

It checks when the store opens and every ten seconds. The broker's first check comes a second after its start.

Source: DefaultMessageStore.addScheduleTask, CleanCommitLogService.isSpaceFull (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable

from store.engine.live.service import ServiceThread

DISK_CHECK_INTERVAL_MS = 10_000


class DiskCheckService(ServiceThread):
    """Calls `check` every ten seconds."""

    def __init__(self, check: Callable[[], None]) -> None:
        super().__init__(DISK_CHECK_INTERVAL_MS)
        self._check = check

    def work(self) -> None:
        self._check()
