"""Refuses a rebuild on Spark, as it does not build light queues."""

from __future__ import annotations

from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.consumequeue.multi_dispatch import NOT_ON_SPARK


def refuse(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise UnsupportedFormat for a store with light queues."""
    raise UnsupportedFormat(NOT_ON_SPARK, file=layout.consumequeue, code="not-on-spark")
