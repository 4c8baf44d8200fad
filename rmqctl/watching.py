"""FileWatcher: waits for changes of a store's files that another process writes.

watchfiles (inotify) reports created files and written bytes. A broker appends through memory maps, and the kernel does
not report that. So the files are read every half second as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmqctl.context import Session
    from store.layout import StoreLayout

LOOK_EVERY_S = 0.5


class FileWatcher:
    """Waits for changes in the log's folders and one queue's; notes once if watchfiles is not installed."""

    def __init__(self, session: Session, layout: StoreLayout, topic: str, queue_id: int) -> None:
        queue = layout.queue_folder(topic, queue_id)
        folders = [*layout.commitlogs, _first_there(queue, layout.root)]
        self._changes = _watch([folder for folder in folders if folder.is_dir()])
        if self._changes is None:
            session.note(
                f"note: the package watchfiles is not installed (rmqctl[follow]); looking every {LOOK_EVERY_S} s"
            )

    def wait(self) -> None:
        """Return when something has changed, or after half a second."""
        if self._changes is None or next(self._changes, None) is None:
            time.sleep(LOOK_EVERY_S)


def _first_there(folder: Path, root: Path) -> Path:
    while not folder.is_dir() and folder != root:
        folder = folder.parent
    return folder


def _watch(folders: list[Path]) -> Iterator[Any] | None:
    try:
        from watchfiles import watch
    except ImportError:
        return None
    milliseconds = int(LOOK_EVERY_S * 1000)
    return watch(
        *folders, recursive=False, watch_filter=None, rust_timeout=milliseconds, yield_on_timeout=True, debounce=50
    )
