"""Find faults that stop the load of the compaction store: file names or lengths that differ.

Source: CompactionStore.load (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.files.store_reader import StoreReader
from store.structures.compaction.files import queues_of, start_faults
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


def blockers(opened: OpenedStore) -> Iterator[Trap]:
    """Yield a trap for each fault that stops the load."""
    for queue in queues_of(StoreReader.of(opened.layout, opened.fs)):
        for file, fault in start_faults(queue):
            yield Trap("compaction-files", f"the compaction store is not loaded: {file.path}: {fault}")
