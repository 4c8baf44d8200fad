"""The refusal of a rebuild on Spark, where light queues are not built."""

from __future__ import annotations

from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.layout import StoreLayout


def refuse(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise UnsupportedFormat for a store with light queues."""
    raise UnsupportedFormat(
        "light queues (INNER_MULTI_DISPATCH) are not built on Spark", file=layout.consumequeue, code="not-on-spark"
    )
