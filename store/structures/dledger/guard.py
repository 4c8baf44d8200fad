"""The refusal of a change to DLedger entries: only the group's leader may write to them, or cut them."""

from __future__ import annotations

from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.commitlog.guard import RULE


def refuse(layout: StoreLayout, fs: Filesystem) -> None:
    """Raises UnsupportedFormat for a log of DLedger entries."""
    if layout.dledger is not None:
        raise UnsupportedFormat(f"a DLedger commit log: {RULE}", file=layout.dledger)
