"""Lines for people about epochs, identity and confirm offset; recovery uses the confirm offset."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.layout import EPOCHS, IDENTITY, StoreLayout
from store.structures.checkpoint.files import confirmed_offset
from store.structures.registry import Present
from store.structures.state.lines import lines_at


def describe(layout: StoreLayout, fs: Filesystem) -> Iterator[Present]:
    """Describe the epochs, the identity and the confirm offset."""
    for name in (EPOCHS, IDENTITY):
        if fs.exists(layout.root / name):
            lines = lines_at(layout, fs, name)
            detail = "; ".join(f"{line.name} {line.value}{f' ({line.fault})' if line.fault else ''}" for line in lines)
            yield Present("controller mode", name, detail or "empty")
    if not fs.exists(layout.root / EPOCHS):
        return
    confirm = confirmed_offset(StoreReader.of(layout, fs))
    if confirm is not None:
        detail = f"records past the confirm offset {confirm} are not confirmed: a new master may cut them"
        yield Present("controller mode", "checkpoint", detail)
