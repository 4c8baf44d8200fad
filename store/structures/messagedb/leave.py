"""The remark on a message database that is not copied."""

from __future__ import annotations

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.messagedb.database import may_hold_entries


def describe_left(layout: StoreLayout, fs: Filesystem) -> str:
    """Describe how a broker fills a new database; empty if the old one has no entries."""
    if not may_hold_entries(layout, fs):
        return ""
    return "a broker creates a new one, and its index begins with new messages: older ones are in the index files"
