"""Refuses a rebuild on Spark, as it does not build light queues."""

from __future__ import annotations

from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.layout import StoreLayout


def refuse(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise UnsupportedFormat for a store with light queues."""
    raise UnsupportedFormat(
        "light queues (INNER_MULTI_DISPATCH) are not built on Spark", file=layout.consumequeue, code="not-on-spark"
    )
