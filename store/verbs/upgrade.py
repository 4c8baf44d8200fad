"""Review a store for a broker of another line: settings that it needs, losses, second deliveries.

The rooms of the store's structures compare how both lines read them. Each note of a room has a count, and a code for
the remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from store.errors import BadRequest
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


def review_upgrade(
    root: str | Path, to: str, *, settings: Mapping[str, object] | None = None, fs: Filesystem | None = None
) -> UpgradeReview:
    """Compare the store as its own line reads it with the store as the line `to` reads it.

    BadRequest for an unknown line, and for a backup: it has no files of queues and timers to compare.
    """
    fs, given = fs or Filesystem(), settings or {}
    layout = make_layout(Path(root), given, fs)
    require_store(layout, fs)
    if fs.holds_log_alone:
        hint = "restore the backup, and review the new store"
        raise BadRequest("files of queues, timers and transactions are not there to compare", file=root, hint=hint)
    with open_as_it_is(layout, given, fs=fs) as own:
        line = own.line.name
    return UpgradeReview(line, to, notes_between(layout, line, to, given, fs))


def notes_between(
    layout: StoreLayout, found: str, to: str, settings: Mapping[str, object], fs: Filesystem | None = None
) -> list[Trap]:
    """List the notes on a store of the line `found` for a broker of the line `to`."""
    with open_as_it_is(layout, settings, found, fs) as own, open_as_it_is(layout, settings, to, fs) as other:
        return [note for room in own.rooms_with("upgrade", "notes") for note in room.notes(own, other)]
