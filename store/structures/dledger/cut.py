"""Refuses to truncate DLedger entries: other members of the group may hold the rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from store.errors import UnsupportedFormat
from store.layout import StoreLayout
from store.structures.commitlog.end import LogEnd


def refuse(layout: StoreLayout, changed: Sequence[Path], end: LogEnd) -> None:
    """Raise UnsupportedFormat if a changed file is in the member's folder."""
    folder = layout.dledger
    if folder is not None and any(path.is_relative_to(folder) for path in changed):
        raise UnsupportedFormat(
            f"the entries end at {end.log_end} in {end.describe()}; only its group may cut a DLedger log",
            file=folder,
            hint="move the member's folder away and let it copy the log of another one; salvage gets what is readable",
        )
