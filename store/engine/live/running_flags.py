"""RunningFlags: the bits that control whether a live store can be read and written.

    bit   name                      set                                                       cleared
    1     NOT_READABLE              by the library's user                                     by the user
    2     NOT_WRITEABLE             by the library's user                                     by the user
    4     WRITE_LOGICS_QUEUE_ERROR  a queue refused a run 30 times, a second apart            when it takes the run
    8     WRITE_INDEX_FILE_ERROR    3 tries to create an index file failed, a second apart    when one succeeds
    16    DISK_FULL                 a partition is above diskSpaceWarningLevelRatio           it is not any more
    32    FENCED                    by the user, in place of 5.x's controller                 by the user
    64    LOGIC_DISK_FULL           by the user, in place of 5.x's database queues            by the user

Any bit but the first refuses puts; the first refuses gets.

Source: RunningFlags (4.9.8, 5.3.3).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import IntFlag


class RunningFlag(IntFlag):
    """One bit of RunningFlags."""

    NOT_READABLE = 1
    NOT_WRITEABLE = 2
    WRITE_LOGICS_QUEUE_ERROR = 4
    WRITE_INDEX_FILE_ERROR = 8
    DISK_FULL = 16
    FENCED = 32
    LOGIC_DISK_FULL = 64


class RunningFlags:
    """The bits of one store, each with its reason; `on_change` is called after every change."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._reasons: dict[RunningFlag, str] = {}
        self._lock = threading.Lock()
        self._on_change = on_change

    def set(self, flag: RunningFlag, reason: str = "") -> None:
        """Set one bit; `reason` is a clause for people."""
        with self._lock:
            self._reasons[flag] = reason or f"the store's flag {flag.name} is set"
        self._on_change()

    def clear(self, flag: RunningFlag) -> None:
        """Clear one bit."""
        with self._lock:
            self._reasons.pop(flag, None)
        self._on_change()

    def __contains__(self, flag: RunningFlag) -> bool:
        return flag in self._reasons

    @property
    def bits(self) -> RunningFlag:
        """All bits that are set, as the broker's number."""
        return RunningFlag(sum(self._reasons))

    @property
    def is_readable(self) -> bool:
        return RunningFlag.NOT_READABLE not in self._reasons

    @property
    def is_writeable(self) -> bool:
        return not self.refusal

    @property
    def refusal(self) -> str:
        """Why puts are refused; empty while they are not."""
        with self._lock:
            return next((text for flag, text in self._reasons.items() if flag != RunningFlag.NOT_READABLE), "")
