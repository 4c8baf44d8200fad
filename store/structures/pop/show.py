"""Lines for people about pop consumers."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.filesystem import Filesystem
from store.formats.topics import REVIVE_PREFIX
from store.formats.wording import amount
from store.layout import StoreLayout
from store.structures.registry import Present


def describe(layout: StoreLayout, fs: Filesystem) -> Iterator[Present]:
    """Describe the queues of checkpoints and acknowledgements, and the store of messages in flight."""
    for name in fs.list_names(layout.consumequeue):
        if name.startswith(REVIVE_PREFIX):
            queues = len(fs.list_names(layout.consumequeue / name))
            detail = f"checkpoints and acknowledgements of pop consumers in {amount(queues, 'queue')}"
            yield Present("pop consumers", f"consumequeue/{name}", detail)
    if fs.exists(layout.root / "kvStore"):
        yield Present("kvStore", "kvStore", "messages in flight of pop consumers, in a RocksDB that is not read")
