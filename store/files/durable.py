"""Makes many files durable from several threads, as a device combines their syncs.

On ext4, 2,000 new files take 0.70 ms each in sequence and 0.07 ms from eight threads; their folders 1.8 and 0.05 ms.
Where the device answers at once, threads only wait for each other: 15,000 queues take 0.07 and 0.14 ms each.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from store.files.filesystem import Filesystem

FEW = 64
"""Up to so many items are synced in sequence, as starting threads takes as long."""
QUICK_S = 200e-6
"""More items are synced in sequence as long as each takes no longer than this: threads would not be faster."""
THREADS = 16

Item = TypeVar("Item")


def sync_files(paths: Sequence[Path], fs: Filesystem) -> None:
    """Make the bytes of these files durable; raise the first error."""
    do_for_each(lambda path: fs.fdatasync(fs.open_read(path)), paths)


def sync_folders(folders: Sequence[Path], fs: Filesystem) -> None:
    """Make the names in these folders durable; raise the first error."""
    do_for_each(fs.fsync_folder, folders)


def sync_tree(folder: Path, fs: Filesystem) -> None:
    """Make everything below a folder durable; a missing folder is empty."""
    entries = fs.list_below(str(folder.parent), folder.name)
    sync_files([folder.parent / entry.path for entry in entries if not entry.is_folder], fs)
    folders = [folder.parent / entry.path for entry in entries if entry.is_folder]
    sync_folders([folder, *folders] if fs.exists(folder) else [], fs)


def do_for_each(work: Callable[[Item], object], items: Sequence[Item]) -> None:
    """Call `work` for each item, in threads if it takes long; raise the error of the first failed item."""
    rest, began = enumerate(items), time.monotonic()
    for number, item in rest:
        work(item)
        if len(items) > FEW and time.monotonic() - began > max(number + 1, FEW) * QUICK_S:
            _do_in_threads(work, rest)


def _do_in_threads(work: Callable[[Item], object], rest: Iterator[tuple[int, Item]]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    failures: dict[int, Exception] = {}

    def do_rest(_: int) -> None:
        for number, item in rest:
            try:
                work(item)
            except Exception as error:
                failures[number] = error
                _pass_over(rest)

    with ThreadPoolExecutor(THREADS, thread_name_prefix="sync") as pool:
        try:
            for _ in pool.map(do_rest, range(THREADS)):
                pass
        finally:
            # Only this thread gets an interrupt.
            _pass_over(rest)
    if failures:
        raise failures[min(failures)]


def _pass_over(items: Iterator[object]) -> None:
    deque(items, maxlen=0)
