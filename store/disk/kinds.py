"""What stands under a name: where a broker expects a file of its own, a folder or a FIFO keeps it from starting.

Asked before anything is opened, because opening a FIFO waits for a writer that never comes.
"""

from __future__ import annotations

import stat
from pathlib import Path

from store.disk.filesystem import Filesystem
from store.errors import ForeignFile

MOVE_IT_OUT = "no broker made it; move it out of the store"
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


def require_file(path: Path, fs: Filesystem) -> None:
    """ForeignFile when something else than a file has the name. No such name is fine."""
    _require(stat.S_IFREG, path, fs)


def require_folder(path: Path, fs: Filesystem) -> None:
    """ForeignFile when something else than a folder has the name. No such name is fine."""
    _require(stat.S_IFDIR, path, fs)


def _require(expected: int, path: Path, fs: Filesystem) -> None:
    if not fs.exists(path):
        return
    found = stat.S_IFMT(fs.stat(path).st_mode)
    if found != expected:
        raise ForeignFile(
            f"{_KINDS.get(found, 'something odd')}, where {_KINDS[expected]} is expected",
            file=path,
            hint=MOVE_IT_OUT,
        )
