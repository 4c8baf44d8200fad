"""Notes on the differences of another broker version for the commit log.

Source: CommitLog.recoverAbnormally (5.5.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


def notes(own: OpenedStore, other: OpenedStore) -> Iterator[Trap]:
    """Yield a note if a recovery of the other version reads fewer segments than the log has."""
    count, most = len(own.log.segments.files), other.config.most_recovered_segments
    if other.line.matches_first_record and not own.line.matches_first_record and count > most:
        detail = f"a start reads the newest {most} of {count} segments, and builds no lost queue from the others"
        yield Trap("recovers-some-segments", detail, (count,))
