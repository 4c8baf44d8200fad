"""Find index files that end past the log's end after a start.

IndexService.buildIndex enters no message whose log offset is below the end in the last file's header. A start that
truncates the log keeps that end.

Source: IndexService, IndexFile (4.9.8, 5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore
    from store.verbs.recover.outcome import SimulatedStart


def traps(opened: OpenedStore, start: SimulatedStart) -> Iterator[Trap]:
    """Yield a trap for the new messages that get no entries."""
    # A group's log may keep the entries past its committed end.
    if any(room.is_log(opened) for room in opened.rooms_with("start", "foretell")):
        return
    end = opened.index.files[-1].header.end_log_offset if opened.index.files else 0
    if opened.config.writes_index_files and end > start.log_end:
        detail = f"new messages from log offset {start.log_end} to {end} get no index entries"
        yield Trap("index-ahead", detail)
