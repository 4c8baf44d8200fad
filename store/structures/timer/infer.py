"""The setting for the size of timerlog files, from the files."""

from __future__ import annotations

from collections.abc import Collection

from store.files.filesystem import Filesystem
from store.files.numbered import numbered_files, usual_size
from store.layout import StoreLayout


def infer_settings(layout: StoreLayout, fs: Filesystem, given: Collection[str] = ()) -> dict[str, object]:
    """Return the size setting that matches most files."""
    size = usual_size(numbered_files(layout.root / "timerlog", fs))
    return {"mappedFileSizeTimerLog": size} if size else {}
