"""Find each file of a DLedger member that ends its process at the start.

Source: DLedgerMmapFileStore.load, MmapFileList.load (DLedger 0.3.1.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.files.store_reader import StoredFile, StoreReader
from store.structures.dledger.files import EntryIndex, start_faults
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


def blockers(opened: OpenedStore) -> Iterator[Trap]:
    """Find an index file of a wrong length, or a file missing between others."""
    folder = opened.layout.dledger
    if folder is None:
        return
    index = EntryIndex(StoreReader(str(folder.parent), opened.fs), folder.name)
    own = set(opened.layout.writable_commitlogs)
    segments = [segment for segment in opened.log.segments.files if segment.path.parent in own]
    data_files = [StoredFile(str(one.path), one.file_start, one.size, 0) for one in segments]
    for path, fault in start_faults(index.index_files, data_files):
        code = "dledger-index-files" if path.startswith(f"{folder.name}/index/") else "dledger-data-files"
        yield Trap(code, f"DLedger ends the process: {path}: {fault}")
