"""One line for people about the message database."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.messagedb.database import CONTENT, FOLDER, may_hold_entries
from store.structures.registry import Present


def describe(layout: StoreLayout, fs: Filesystem) -> Iterator[Present]:
    """Describe the database by its files alone: lost, empty, or with entries."""
    if fs.is_folder(layout.root / FOLDER):
        detail = f"{CONTENT} (5.4 and later)" if may_hold_entries(layout, fs) else "empty, as 5.4 and later make it"
    else:
        detail = "not there: its topics are, and a broker of 5.4 or later creates it"
    yield Present("RocksDB with index, timers and half messages", FOLDER, detail)
