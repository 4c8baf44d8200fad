"""One line for people about the timer's files."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.filesystem import Filesystem
from store.formats.timer import TIMER_CHECK
from store.layout import StoreLayout
from store.structures.registry import Present

LOG, CHECK = "timerlog", "config/timercheck"
PARTS = ("timerwheel", LOG, CHECK)


def describe(layout: StoreLayout, fs: Filesystem) -> Iterator[Present]:
    """Describe the timer's files, and list missing ones."""
    found = [name for name in PARTS if fs.exists(layout.root / name)]
    lacking = [name for name in PARTS if name not in found]
    if found:
        detail = "complete" if not lacking else f"{', '.join(lacking)} missing: pending messages may be lost"
        if lacking == [LOG] and not _has_taken_up(layout, fs):
            detail = "unused: no timer message was ever taken up"
        yield Present("timer messages", found[0], detail)


def _has_taken_up(layout: StoreLayout, fs: Filesystem) -> bool:
    """Return whether timercheck shows that the service has processed a message."""
    # Every start of a 5.5 broker creates a wheel, so a wheel shows nothing.
    data = fs.read_file(layout.root / CHECK)
    return len(data) < TIMER_CHECK.size or any(TIMER_CHECK.unpack_from(data)[1:4])
