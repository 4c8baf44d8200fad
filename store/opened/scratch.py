"""Scratch: a folder outside of the store for files built for readers and dry runs.

    DIR/rmqctl-<process id>-<random>/…

It is made at the first use and removed by close(). What a killed process left behind is removed by the next one that
makes a folder there: its process id is no longer in use.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Self

from store.disk.filesystem import os_errors

_PREFIX = "rmqctl-"


class Scratch:
    """One scratch folder below `parent` (default: the temporary folder)."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent
        self._folder: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder, readable by this user only; StoreIOError where it cannot be made."""
        if self._folder is None:
            parent = self._parent
            with os_errors(parent or "the temporary folder", "make a scratch folder"):
                parent = parent or Path(tempfile.gettempdir())
                remove_abandoned(parent)
                self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
        return self._folder

    def close(self) -> None:
        """Removes the folder with all that is in it. Closing twice is fine."""
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def remove_abandoned(parent: Path) -> None:
    """Removes this user's scratch folders of processes that are no more."""
    for path in parent.glob(f"{_PREFIX}[0-9]*-*"):
        process_id = path.name[len(_PREFIX) :].partition("-")[0]
        with contextlib.suppress(OSError):
            is_own = path.lstat().st_uid == os.getuid() and path.is_dir() and not path.is_symlink()
            if process_id.isdigit() and is_own and not _is_running(int(process_id)):
                shutil.rmtree(path, ignore_errors=True)


def _is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
