"""One line of the timer for people."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.registry import Present

PARTS = ("timerwheel", "timerlog", "config/timercheck")


def describe(layout: StoreLayout, fs: Filesystem) -> Iterator[Present]:
    """Name the files of the timer that are missing."""
    found = [name for name in PARTS if fs.exists(layout.root / name)]
    lacking = [name for name in PARTS if name not in found]
    if found:
        detail = "complete" if not lacking else f"{', '.join(lacking)} missing: pending messages may be lost"
        yield Present("timer messages", found[0], detail)
