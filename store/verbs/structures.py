"""Find the structures of a store besides a plain log with file queues, by the broker's own criteria."""

from __future__ import annotations

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.opened.detect import newer_structures
from store.structures.registry import Present, names_of, rooms_with, unknown_names

NEWER = "newer than 5.5"
"""The name of structures that no supported broker writes."""
UNKNOWN = "unknown"
"""The name of files and folders that belong to no structure."""


def find_structures(layout: StoreLayout, fs: Filesystem) -> list[Present]:
    """Describe the store's structures in the registry's order, then newer and unknown files."""
    names = names_of(layout, fs)
    found = [line for room in rooms_with(names, "show", "describe") for line in room.describe(layout, fs)]
    for path, clause in newer_structures(layout, fs):
        found.append(Present(NEWER, path.name, f"{clause}: the store is only read"))
    for name in unknown_names(names):
        is_folder = fs.is_folder(layout.root / name)
        found.append(Present(UNKNOWN, name, "a folder" if is_folder else "a file"))
    return found
