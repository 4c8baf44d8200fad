"""LostConnections: notes on the lost connections of a command that connects again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqctl.context import Session

if TYPE_CHECKING:
    from store import StoreError


class LostConnections:
    """The lost connections of one run: a repeated error is noted once, until bytes arrive again."""

    def __init__(self, session: Session) -> None:
        self._session, self._noted = session, ""

    def note(self, error: StoreError) -> None:
        """Note an error, unless the one before was the same."""
        if str(error) != self._noted:
            self._noted = str(error)
            self._session.note(f"note: {error}; trying again")

    def reset_by(self, on_progress: Callable[[int], None]) -> Callable[[int], None]:
        """Return `on_progress` as a function that also ends the silence on a repeated error."""

        def on_bytes(count: int) -> None:
            self._noted = ""
            on_progress(count)

        return on_bytes
