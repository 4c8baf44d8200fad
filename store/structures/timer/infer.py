"""The size of timerlog files and the milliseconds of a slot, from the files."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.numbered import numbered_files, usual_size
from store.layout import StoreLayout
from store.structures.timer.files import shown_precision_ms


def infer_settings(layout: StoreLayout, fs: Filesystem, given: Collection[str] = ()) -> dict[str, object]:
    """Return the size that most files have, and the precision that the wheel shows."""
    found: dict[str, object] = {}
    if size := usual_size(numbered_files(layout.root / "timerlog", fs)):
        found["mappedFileSizeTimerLog"] = size
    with suppress(StoreIOError):
        if precision_ms := shown_precision_ms(layout, fs):
            found["timerPrecisionMs"] = precision_ms
    return found
