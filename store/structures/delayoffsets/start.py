"""Find delayed messages that a broker does not deliver after its start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.structures.delayoffsets.findings import UNDELIVERABLE
from store.structures.delayoffsets.undeliverable import undeliverable
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore
    from store.verbs.recover.outcome import SimulatedStart


def traps(opened: OpenedStore, start: SimulatedStart) -> Iterator[Trap]:
    """Yield a trap for each level with undeliverable messages."""
    return (Trap(UNDELIVERABLE, one.detail, (one.level,)) for one in undeliverable(opened))
