"""A disk that tells each sync."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.simulated_disk import SimulatedDisk

Look = Callable[["WatchedDisk", str, Any], None]


class WatchedDisk(SimulatedDisk):
    """Calls `look` before each operation that changes something."""

    look: Look | None = None

    def before(self, name: str, argument: Any) -> None:
        super().before(name, argument)
        if self.look is not None:
            self.look(self, name, argument)

    def pending(self, *passed: str) -> list[str]:
        """What a cut could change in the store, but for staged files, and names that begin as `passed` do."""
        kept = (name.removeprefix("store/") for name in self.unsynced())
        return [name for name in kept if not name.startswith((".rmqctl/staging", *passed))]


def disk_over(folder: Path) -> WatchedDisk:
    """A disk on which everything in the folder is durable."""
    return WatchedDisk(folder, folder.parent / "cuts")
