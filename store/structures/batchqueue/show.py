"""One line for people about the batch queues."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.registry import Present

NAMED_TOPICS = 5


def describe(layout: StoreLayout, fs: Filesystem) -> Iterator[Present]:
    """List the first topics with batch queues."""
    topics = [entry.path.name for entry in fs.list_folder(layout.batchconsumequeue) if entry.is_folder]
    if topics:
        detail = f"queue.type=BatchCQ of {', '.join(topics[:NAMED_TOPICS])}"
        yield Present("set of batch consume queues", "batchconsumequeue", detail)
