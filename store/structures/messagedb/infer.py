"""Infer settings from the message database."""

from __future__ import annotations

from collections.abc import Collection

from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.layout import StoreLayout
from store.structures.messagedb.database import FOLDER, may_hold_entries, open_database
from store.structures.messagedb.keys import INDEX, LAST_OFFSET


def infer_settings(layout: StoreLayout, fs: Filesystem, given: Collection[str] = ()) -> dict[str, object]:
    """Return indexFileWriteEnable=False if there are no index files and the database has an index."""
    has_files = fs.is_folder(layout.index) and bool(fs.list_names(layout.index))
    if has_files or not may_hold_entries(layout, fs):
        return {}
    try:
        with Scratch() as scratch:
            database = open_database(layout.root / FOLDER, scratch.folder, fs)
    except StoreError:
        return {}
    return {"indexFileWriteEnable": False} if LAST_OFFSET in database.longs[INDEX] else {}
