"""Lines for people about tiered storage."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.filesystem import Filesystem
from store.formats.wording import amount
from store.layout import TIERED, StoreLayout
from store.structures.registry import Present
from store.structures.state.lines import lines_at

_COUNTS = (
    ("topic", "topic"),
    ("queue", "queue"),
    ("commitLog", "log file"),
    ("consumeQueue", "queue file"),
    ("index", "index file"),
)


def describe(layout: StoreLayout, fs: Filesystem) -> Iterator[Present]:
    """Count the topics, queues and files in the metadata (DefaultMetadataStore)."""
    if fs.exists(layout.root / TIERED):
        kinds = [line.name.partition(" ")[0] for line in lines_at(layout, fs, TIERED)]
        counts = [amount(kinds.count(kind), name) for kind, name in _COUNTS]
        yield Present("tiered storage", TIERED, f"{', '.join(counts)}: older messages may lie elsewhere")
    if fs.exists(layout.root / "tiered_index_file"):
        yield Present("tiered storage", "tiered_index_file", "its index before the upload")
