"""Find an epoch file that a crash left empty or torn: a broker in controller mode does not start.

Source: EpochFileCache (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.layout import EPOCHS
from store.structures.state.lines import is_torn
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


def blockers(opened: OpenedStore) -> Iterator[Trap]:
    """Yield a trap for an empty or torn epoch file."""
    file = opened.layout.root / EPOCHS
    if opened.fs.exists(file) and is_torn(opened.fs.read_file(file).decode("utf-8", "replace")):
        yield Trap("epochs-torn", f"NumberFormatException: {EPOCHS} is empty or torn (controller mode)")
