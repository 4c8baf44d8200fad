"""A command that connects again and again says why once, and once more after it has received bytes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rmqctl.lost_connections import LostConnections
from store.errors import LinkLost


def test_a_repeated_error_is_noted_once_until_another_one_or_bytes_come() -> None:
    notes: list[str] = []
    received: list[int] = []
    session: Any = SimpleNamespace(note=notes.append)
    lost = LostConnections(session)
    on_progress = lost.reset_by(received.append)
    for text in ("refused", "refused", "closed", "refused"):
        lost.note(LinkLost(text))
    on_progress(7)
    lost.note(LinkLost("refused"))
    assert notes == [f"note: {text}; trying again" for text in ("refused", "closed", "refused", "refused")]
    assert received == [7]
