"""Lost pages: pages of a mapped file that were readable at the check, but not at their use.

    check (readable.py)     reads pages into memory, and reports unreadable ones
    touch                   a page may be lost since: another process has shortened the file, or the kernel has
                            dropped the page and can't read it again. The kernel then sends SIGBUS, as it does
                            if a page of a hole is needed in a full tmpfs.

Without a handler SIGBUS ends the process. With the handler of `catch_lost_pages`, the touch reads zeros, and the page
is recorded here. A result from such zeros is wrong, so code that reads maps checks before its result becomes final:

    seen = lost_pages.count()
    ...                                  touches pages
    lost_pages.require_none_since(seen)

Only maps of store.files.mapping are watched: for other addresses SIGBUS has its previous effect. The handler is
compiled code (store/kernels/lost_pages.h); without compiled kernels, and outside of Linux, there is none.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from store.errors import StoreIOError

FileKey = tuple[int, int]
"""Device and inode, as the path of a file may change."""


@dataclass(slots=True)
class WatchedMap:
    """A watched map; `is_open` until it is unmapped."""

    start: int
    size: int
    path: Path
    file: FileKey
    is_open: bool = True


@dataclass(slots=True)
class LostPages:
    """Adjacent lost pages of a map, by address; `noted_at` is the count of lost pages at their recording.

    is_reported  an error or a finding has reported them
    """

    of: WatchedMap
    start: int
    stop: int
    noted_at: int
    is_reported: bool = False

    def error(self) -> StoreIOError:
        """Return the error with file and offset, and count the pages as reported."""
        self.is_reported = True
        start, stop = self.start - self.of.start, self.stop - self.of.start
        return StoreIOError(
            f"bytes {start} to {stop} were lost while they were in use: another process has shortened the file, the "
            "device reports an error, or a file system in memory is full",
            file=self.of.path,
            offset=start,
            hint="what was made of them is not to be trusted: run the command again",
        )


_is_wanted = False
_handler: ModuleType | None = None
# Garbage collection may free a map during a call here, so a thread may need the lock twice.
_lock = threading.RLock()
_maps: dict[int, WatchedMap] = {}
_free_numbers: list[int] = []
_most_numbers = 0
_lost: list[LostPages] = []
_settled = 0
_looked_at = 0
"""The count of lost pages when losses were last recorded."""


def catch_lost_pages() -> None:
    """Let the process survive lost pages of files that it maps from now on.

    Calls that need a lost page raise StoreIOError. This installs a handler for SIGBUS, so the program decides about it.
    """
    global _is_wanted
    _is_wanted = _handler is None


def count() -> int:
    """Return the number of pages lost so far."""
    return _handler.lost_page_count() if _handler is not None else 0


def require_none_since(seen: int, start: int = 0, stop: int = sys.maxsize) -> None:
    """Raise StoreIOError for a page in [start, stop) that was lost since `count` returned `seen`."""
    if count() != seen:
        for lost in _noted():
            if lost.noted_at > seen and lost.start < stop and lost.stop > start:
                raise lost.error()


def require_none() -> None:
    """Raise StoreIOError for a page that was lost since the last `settle_lost_pages`."""
    require_none_since(_settled)


def require_whole(file: FileKey) -> None:
    """Raise StoreIOError for a lost page of this file, as a write to it may be lost."""
    for lost in _noted():
        if lost.of.file == file:
            raise lost.error()


def first_lost(start: int, stop: int) -> int:
    """Return the start of the first lost page with an address in [start, stop), or `stop`."""
    return min((lost.start for lost in _overlapping(start, stop)), default=stop)


def report(start: int, stop: int) -> None:
    """Count the lost pages with an address in [start, stop) as reported, by a finding."""
    for lost in _overlapping(start, stop):
        lost.is_reported = True


def settle_lost_pages() -> list[StoreIOError]:
    """Return an error for each unreported loss, and count all losses as reported."""
    global _settled
    if _handler is None or count() == _settled:
        return []
    errors = [lost.error() for lost in _noted() if not lost.is_reported]
    _lost[:] = [lost for lost in _lost if lost.of.is_open]
    _settled = count()
    _handler.settle_lost_pages()
    return errors


# Maps.


def watch(start: int, size: int, path: Path, file: FileKey, *, writable: bool) -> int:
    """Watch a new map if a handler is wanted; return its number, -1 if it is not watched."""
    global _most_numbers
    handler = _handler or _install()
    if handler is None:
        return -1
    with _lock:
        if not _free_numbers and _most_numbers == handler.most_watched_maps:
            # More maps than the kernel allows by default.
            return -1
        number = _free_numbers.pop() if _free_numbers else _most_numbers
        _most_numbers = max(_most_numbers, number + 1)
        _maps[number] = WatchedMap(start, size, path, file)
        handler.watch_map(number, start, size, writable)
    return number


def end_watch(number: int) -> None:
    """End the watch of a map before it is unmapped; its losses stay recorded."""
    if number < 0 or _handler is None:
        return
    with _lock:
        _noted()
        _handler.watch_map(number, 0, 0, False)
        _maps.pop(number).is_open = False
        _free_numbers.append(number)


def _install() -> ModuleType | None:
    """Return the compiled kernels with their handler installed.

    None if no handler is wanted or available.
    """
    global _handler, _is_wanted
    if _is_wanted:
        from store.kernels import compiled_module

        _is_wanted = False
        if compiled_module is not None and compiled_module.catch_lost_pages():
            _handler = compiled_module
    return _handler


def _noted() -> list[LostPages]:
    """Return all losses, including new ones from the handler."""
    global _looked_at
    if _handler is None:
        return []
    with _lock:
        # Counted first, so that pages lost during this call are recorded by the next one.
        seen = count()
        if seen == _looked_at:
            return list(_lost)
        # Copied before the ranges are taken: a map that is freed meanwhile may have lost pages too.
        maps = list(_maps.values())
        ranges = sorted(_handler.take_lost_ranges())
        noted_at, _looked_at = count(), seen
        for start, stop in ranges:
            # Adjacent pages may belong to two maps.
            parts = ((one, max(start, one.start), min(stop, one.start + one.size)) for one in maps)
            for lost in (LostPages(one, low, high, noted_at) for one, low, high in parts if low < high):
                _add(lost)
        return list(_lost)


def _add(lost: LostPages) -> None:
    last = _lost[-1] if _lost else None
    if last is not None and last.of is lost.of and last.stop == lost.start and not last.is_reported:
        last.stop, last.noted_at = lost.stop, lost.noted_at
    else:
        _lost.append(lost)


def _overlapping(start: int, stop: int) -> list[LostPages]:
    return [lost for lost in _noted() if lost.of.is_open and lost.start < stop and lost.stop > start]
