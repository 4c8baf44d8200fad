"""Word the remark on a message database that stays behind."""

from __future__ import annotations

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.messagedb.database import may_hold_entries


def describe_left(layout: StoreLayout, fs: Filesystem) -> str:
    """Say how a broker fills it again; empty where it holds nothing."""
    if not may_hold_entries(layout, fs):
        return ""
    return "a broker creates a new one, and fills it from the newest 10 segments where abort is in the store"
