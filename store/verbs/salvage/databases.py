"""Build the database of timers and open half messages in a new store (5.4 and later)."""

from __future__ import annotations

from pathlib import Path

from store.config import StoreConfig
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.formats.timer import TIMELINE_ON
from store.layout import StoreLayout
from store.structures.registry import names_of, rooms_with

OPENED = "half messages without an end are open, and checked anew"
WAITING = f"waiting timers are in it: start with {TIMELINE_ON}=true"


def fires_timeline(layout: StoreLayout | None, config: StoreConfig, fs: Filesystem) -> bool:
    """Return whether a store's timers are in a database, and not on a wheel.

    layout  None without the store's files: then the setting decides

    DamagedFile or BadRequest if the database can't be read, and no setting is given.
    """
    rooms = rooms_with(names_of(layout, fs), "timeline", "fires_timeline") if layout is not None else ()
    return bool(config.timer_rocks_db_enable) or any(room.fires_timeline(config, layout, fs) for room in rooms)


def build_database(
    root: Path, fs: Filesystem, now_ms: int, *, with_timers: bool, with_halves: bool
) -> tuple[set[str], str]:
    """Build the database; return its name in the store's root, or a clause with the reason why not."""
    from store.opened.staged import staged_store
    from store.structures import plan_message_database

    settings = {TIMELINE_ON: with_timers}
    try:
        with (
            staged_store(root, fs=fs, settings=settings, clock=lambda: now_ms) as opened,
            plan_message_database(opened, without_halves=not with_halves) as change,
        ):
            built = {Path(row["file"]).parts[0] for row in change.rows()}
            change.apply(keep=False)
    except BadRequest as error:
        return set(), f": {error}"
    return built, ""
