"""OpenRequest: the options that opening a store for reading and for writing have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.opened.detect import FoundStore, find_store


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """The options of open_store that both ways of opening have."""

    layout: StoreLayout
    settings: Mapping[str, object]
    fs: Filesystem
    clock: Callable[[], int]
    compat: str | None
    progress: Callable[[int, int], None] | None

    def find(self) -> FoundStore:
        """Return the store before it is opened: its parts, its settings, the broker line whose rules apply."""
        return find_store(self.layout, self.settings, self.fs, compat=self.compat)
