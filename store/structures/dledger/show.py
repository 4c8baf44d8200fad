"""One line for people about each DLedger commit log."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.filesystem import Filesystem
from store.formats.wording import amount
from store.layout import StoreLayout
from store.structures.registry import Present


def describe(layout: StoreLayout, fs: Filesystem) -> Iterator[Present]:
    """Count the data files of each member."""
    for entry in fs.list_folder(layout.root):
        name = entry.path.name
        if entry.is_folder and name.startswith("dledger-"):
            is_read = layout.dledger is not None and layout.dledger.name == name
            folders = layout.writable_commitlogs if is_read else (entry.path / "data",)
            files = [one for folder in folders for one in fs.list_folder(folder) if one.is_file]
            size = sum(one.size for one in files)
            yield Present("DLedger commit log", name, f"{amount(len(files), 'data file')}, {amount(size, 'byte')}")
