"""The refusal of a change that would leave the message database behind the log."""

from __future__ import annotations

from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.messagedb.database import CONTENT, FOLDER, may_hold_entries


def refuse(layout: StoreLayout, fs: Filesystem) -> None:
    """Raises UnsupportedFormat for a database with entries."""
    if may_hold_entries(layout, fs):
        raise UnsupportedFormat(
            f"{CONTENT} are in a RocksDB (5.4 and later); the store is read, checked, recovered, cut, rebuilt "
            "and salvaged, and no message is put into its log",
            file=layout.root / FOLDER,
            code="message-database",
        )
