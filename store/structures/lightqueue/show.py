"""One line for people about the light queues."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.filesystem import Filesystem
from store.formats.topics import shares_records
from store.formats.wording import amount
from store.layout import StoreLayout
from store.structures.registry import Present


def describe(layout: StoreLayout, fs: Filesystem) -> Iterator[Present]:
    """Count the folders of light queues."""
    count = sum(shares_records(name) for name in fs.list_names(layout.consumequeue))
    if count:
        yield Present("light queues", "consumequeue", f"{amount(count, 'folder')} of INNER_MULTI_DISPATCH (%LMQ%…)")
