"""One segment file, read as a store without other files."""

from __future__ import annotations

from pathlib import Path

from store.errors import NotAStore
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.verbs.salvage.sources import open_source
from store.verbs.salvage.walk import find_start


def open_segment(file: Path, fs: Filesystem | None = None) -> StoreReader:
    """Open one segment file as a log; its log offset is from its records, or else from its name.

    NotAStore if neither a record nor the name has it.
    """
    fs = fs or Filesystem()
    file = file.expanduser().absolute()
    start = find_start(open_source(file, fs))
    if start < 0:
        raise NotAStore("no segment: neither its records nor its name give a log offset", file=file)
    return StoreReader(str(file), fs, segment_start=start)
