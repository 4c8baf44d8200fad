"""The settings that follow from light queues in a store."""

from __future__ import annotations

from collections.abc import Collection

from store.config import NAMED_QUEUES
from store.files.filesystem import Filesystem
from store.layout import StoreLayout


def infer_settings(layout: StoreLayout, fs: Filesystem, given: Collection[str] = ()) -> dict[str, object]:
    """Return the settings of a broker that has light queues."""
    return dict(NAMED_QUEUES)
