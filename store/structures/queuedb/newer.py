"""Column families and files of a queue database that are newer than the brokers' up to 5.5."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from store.files.filesystem import Filesystem
from store.files.rocksdb_files import queue_database
from store.files.rocksdb_newer import newer_traits
from store.layout import StoreLayout
from store.structures.queuedb.keys import OFFSETS, UNITS


def newer(layout: StoreLayout, fs: Filesystem) -> Iterator[tuple[Path, str]]:
    """Yield the folder and a description of each newer part."""
    folder = queue_database(layout, fs)
    for trait in newer_traits(folder, fs, (UNITS, OFFSETS)):
        yield folder, trait
