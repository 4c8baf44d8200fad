"""OpenRequest: the options of open_store for reading and for writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.opened.detect import FoundStore, find_store


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """The options of open_store that do not depend on reading or writing."""

    layout: StoreLayout
    settings: Mapping[str, object]
    fs: Filesystem
    clock: Callable[[], int]
    compat: str | None
    progress: Callable[[int, int], None] | None

    def find(self) -> FoundStore:
        """Return the store before it is opened: its layout, settings and broker line."""
        return find_store(self.layout, self.settings, self.fs, compat=self.compat)
