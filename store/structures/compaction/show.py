"""One line for people about the compaction store."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.registry import Present

NAMED_TOPICS = 5


def describe(layout: StoreLayout, fs: Filesystem) -> Iterator[Present]:
    """List the first compacted topics."""
    folder = layout.root / "compaction"
    topics = [entry.path.name for entry in fs.list_folder(folder / "compactionLog") if entry.is_folder]
    if topics:
        detail = f"cleanup.policy=COMPACTION of {', '.join(topics[:NAMED_TOPICS])}"
        yield Present("compacted topics", "compaction", detail)
