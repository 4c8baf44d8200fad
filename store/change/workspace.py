"""ROOT/.rmqctl/: the folder where changes are staged and where removed files are kept."""

from __future__ import annotations

from pathlib import Path

from store.errors import ForeignFile
from store.files.filesystem import MOVE_IT_OUT, Filesystem
from store.layout import OWN_FOLDER


def quarantine_folder(root: Path) -> Path:
    return root / OWN_FOLDER / "quarantine"


def staging_folder(root: Path, name: str) -> Path:
    """Return a folder on the store's own file system, so that publishing is a rename."""
    return root / OWN_FOLDER / "staging" / name


def is_below(folder: Path, path: Path) -> bool:
    """Return whether a path names something in the folder; both are absolute."""
    # A path of pathlib takes four times as long, and a plan may have 100,000 files.
    return str(path).startswith(f"{folder}/")


def relative_name(root: Path, path: Path) -> str:
    """Shorten a path for people: relative to the store for a file inside of it."""
    return "." if path == root else str(path).removeprefix(f"{root}/")


def stored_name(root: Path, path: Path) -> str:
    """Name a file in a manifest: relative to the store, or without links and `..` for one outside of it."""
    return relative_name(root, path if is_below(root, path) else path.parent.resolve() / path.name)


def require_no_link(fs: Filesystem, base: Path, path: Path) -> None:
    """Raise ForeignFile when a folder between `base` and `path` is a link, for a link may lead anywhere."""
    for folder in path.parents:
        if not is_below(base, folder):
            return
        if fs.is_link(folder):
            raise ForeignFile("a link among the folders of the store", file=folder, hint=MOVE_IT_OUT)
