"""Refuses a rebuild on Spark, as it does not build batch queues."""

from __future__ import annotations

from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.batchqueue.queue_types import topics_with_files


def refuse(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise UnsupportedFormat for a store with batch queues, also if they are not built yet."""
    if topics_with_files(layout, fs):
        raise UnsupportedFormat(
            "batch consume queues (queue.type=BatchCQ) are not built on Spark",
            file=layout.batchconsumequeue,
            code="not-on-spark",
        )
