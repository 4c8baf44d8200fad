"""Refuses a rebuild on Spark, as it does not build batch queues."""

from __future__ import annotations

from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.layout import StoreLayout


def refuse(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise UnsupportedFormat for a store with batch queues."""
    if fs.list_folder(layout.batchconsumequeue):
        raise UnsupportedFormat(
            "batch consume queues (queue.type=BatchCQ) are not built on Spark",
            file=layout.batchconsumequeue,
            code="not-on-spark",
        )
