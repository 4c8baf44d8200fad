"""Scratch: a folder outside of the store for files built for readers and dry runs.

    DIR/rmqctl-scratch-<random>/…

It is created at the first use, and removed by close(). Its process holds a lock on it, and the lock ends with the
process. So the next process with a scratch folder in DIR removes the folders of killed processes. A process id in the
name would not be enough, as containers that share a folder use the same ids.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Self

from store.errors import StoreIOError
from store.files.filesystem import os_errors

_PREFIX = "rmqctl-scratch-"
_TRIES = 100


class Scratch:
    """One scratch folder below `parent` (default: the temporary folder)."""

    def __init__(self, parent: str | Path | None = None) -> None:
        self._parent = Path(parent) if parent is not None else None
        self._folder: Path | None = None
        self._lock: int | None = None

    @property
    def folder(self) -> Path:
        """The folder, readable only by this user; StoreIOError if it can't be created."""
        if self._folder is None:
            try:
                with os_errors(self._parent or tempfile.tempdir or "the temporary folder", "make a scratch folder"):
                    parent = self._parent or Path(tempfile.gettempdir())
                    remove_abandoned(parent)
                    self._folder, self._lock = _make_locked(parent)
            except StoreIOError as error:
                error.code, error.hint = "scratch-place", None
                raise
        return self._folder

    def close(self) -> None:
        """Remove the folder with its contents. Closing twice is fine."""
        folder, self._folder = self._folder, None
        lock, self._lock = self._lock, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def remove_abandoned(parent: Path) -> None:
    """Remove this user's scratch folders without a running process."""
    for path in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid != os.getuid():
                continue
            lock = _lock(path)
            if lock is not None:
                try:
                    shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(lock)


def is_in_scratch(path: Path) -> bool:
    """Return whether the path leads into a scratch folder."""
    return any(name.startswith(_PREFIX) for name in path.parts)


def _make_locked(parent: Path) -> tuple[Path, int | None]:
    """Return a new folder and the descriptor that holds its lock, None on a file system without locks.

    Before it is locked, another process may remove it as abandoned: then create the next one.
    """
    for _ in range(_TRIES):
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        try:
            lock = _lock(folder)
        except FileNotFoundError:
            continue
        except OSError:
            return folder, None
        if lock is not None and folder.exists():
            return folder, lock
        if lock is not None:
            os.close(lock)
    raise FileExistsError(f"other processes removed {_TRIES} new folders")


def _lock(folder: Path) -> int | None:
    """Return a descriptor that holds the lock of the folder; None if another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
