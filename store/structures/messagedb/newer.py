"""Column families, values and files of a message database that are newer than the brokers' up to 5.5."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from store.errors import BadRequest, DamagedFile
from store.files.filesystem import Filesystem
from store.files.rocksdb_newer import newer_traits
from store.files.scratch import Scratch
from store.layout import StoreLayout
from store.structures.messagedb.database import FOLDER, may_hold_entries, open_database
from store.structures.messagedb.keys import FAMILIES


def newer(layout: StoreLayout, fs: Filesystem) -> Iterator[tuple[Path, str]]:
    """Yield the folder and a description of each newer part."""
    folder = layout.root / FOLDER
    for trait in newer_traits(folder, fs, FAMILIES):
        yield folder, trait
    if may_hold_entries(layout, fs):
        with suppress(BadRequest, DamagedFile), Scratch() as scratch:
            for family, size in open_database(folder, scratch.folder, fs).odd_sizes():
                yield folder, f"values of {size} bytes in the column family {family!r}"
