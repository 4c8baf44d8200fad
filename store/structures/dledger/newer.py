"""Entries of a DLedger newer than the brokers' 0.3.1.2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.layout import StoreLayout
from store.structures.dledger.files import EntryIndex


def newer(layout: StoreLayout, fs: Filesystem) -> Iterator[tuple[Path, str]]:
    """Yield the member's folder and a description of its first newer entry."""
    folder = layout.dledger
    if folder is not None:
        for unit in EntryIndex(StoreReader(str(folder.parent), fs), folder.name).first_newer():
            entry = f"from entry {unit['index']} on (magic {unit['magic']}, log offset {unit['pos']})"
            yield folder, f"entries of a DLedger newer than 0.3.1.2 {entry}"
