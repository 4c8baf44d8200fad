"""Mend the compaction store of a new store: a broker does not start on a copy with a part lost."""

from __future__ import annotations

from pathlib import Path

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.compaction.build import plan_compaction_mend
from store.structures.compaction.files import FOLDER


def mend_copy(layout: StoreLayout, fs: Filesystem, staging: Path) -> tuple[str, list[str], list[str]]:
    """Mend the copy; return its folder, a clause for each mended file, and sentences on the rest."""
    with plan_compaction_mend(layout, fs, staging) as change:
        mended = [f"{row['file']} ({row['reason']})" for row in change.rows()]
        change.apply(keep=False)
        return FOLDER, mended, change.remarks
