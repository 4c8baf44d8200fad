"""Review a store for a broker of another line: settings that it needs, losses, second deliveries.

The rooms of the store's structures compare how both lines read them. Each note of a room has a count, and a code for
the remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.opened.detect import make_layout, require_store
from store.structures.trap import Trap
from store.verbs.check.view import open_as_it_is


@dataclass(frozen=True, slots=True)
class UpgradeReview:
    """The notes on a store of the line `found` before an upgrade to a broker of the line `to`."""

    found: str
    to: str
    notes: list[Trap]


def review_upgrade(root: str | Path, to: str, *, settings: Mapping[str, object] | None = None) -> UpgradeReview:
    """Compare the store as its own line reads it with the store as the line `to` reads it.

    BadRequest for an unknown line.
    """
    layout, given = make_layout(Path(root), settings or {}), settings or {}
    require_store(layout, Filesystem())
    with open_as_it_is(layout, given) as own:
        line = own.line.name
    return UpgradeReview(line, to, notes_between(layout, line, to, given))


def notes_between(layout: StoreLayout, found: str, to: str, settings: Mapping[str, object]) -> list[Trap]:
    """List the notes on a store of the line `found` for a broker of the line `to`."""
    with open_as_it_is(layout, settings, found) as own, open_as_it_is(layout, settings, to) as other:
        return [note for room in own.rooms_with("upgrade", "notes") for note in room.notes(own, other)]
