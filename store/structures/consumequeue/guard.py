"""Light queues in a store, and the refusal of a rebuild on Spark, where they are not built."""

from __future__ import annotations

from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.formats.topics import LMQ_PREFIX
from store.layout import StoreLayout


def refuse(layout: StoreLayout, fs: Filesystem) -> None:
    """Raises UnsupportedFormat for a store with light queues."""
    if has_light_queues(layout, fs):
        raise UnsupportedFormat(
            "light queues (INNER_MULTI_DISPATCH) are not built on Spark", file=layout.consumequeue, code="not-on-spark"
        )


def has_light_queues(layout: StoreLayout, fs: Filesystem) -> bool:
    """Whether a light queue's folder, or the table of their consumers' offsets, is in the store."""
    is_named = fs.exists(layout.config / "lmqConsumerOffset.json")
    return is_named or any(name.startswith(LMQ_PREFIX) for name in fs.list_names(layout.consumequeue))
