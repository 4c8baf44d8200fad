"""Reads the first bytes of a command's scan into the page cache during the imports.

A command knows its store a tenth of a second before its scan begins, and the device would be idle meanwhile. The kernel
does the reading (sendfile to /dev/null): nothing is mapped or copied here. A range that begins in the page cache is
skipped: it is mostly cached as a whole, and reading it again would cost processor time.
The files are a guess, so at most LONGEST_S and MOST_BYTES are spent. Read errors are left to the scan.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from store.errors import StoreError
from store.files.filesystem import Descriptor, Filesystem
from store.threads import Worker

LONGEST_S = 0.2
"""Longer than the imports take on a busy machine."""
MOST_BYTES = 512 << 20
_FIRST_STEP_BYTES, _MOST_STEP_BYTES = 8 << 20, 128 << 20
_SHORT_STEP_S = 0.02
"""After each step the thread waits for the interpreter, up to 5 ms beside an importing thread."""


class EarlyRead:
    """A thread that reads the files of folders into the page cache, in order of name.

    newest  read only so many last files of each folder
    """

    def __init__(self, folders: Iterable[Path], newest: int | None = None, fs: Filesystem | None = None) -> None:
        self._folders, self._newest = list(folders), newest
        self._fs = fs or Filesystem()
        self._is_over = False
        # A hanging device must not block the end of the process.
        self._thread = Worker(self._run, "early read", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after the current step, and wait for it."""
        self._is_over = True
        self._thread.join()

    def _run(self) -> None:
        try:
            self._read()
        except StoreError:
            # The scan meets the same error and reports it.
            return

    def _read(self) -> None:
        left, step, until = MOST_BYTES, _FIRST_STEP_BYTES, time.perf_counter() + LONGEST_S
        for descriptor, start, stop in self._ranges():
            while start < stop:
                began = time.perf_counter()
                if self._is_over or left <= 0 or began > until:
                    return
                count = self._fs.read_in(descriptor, start, min(step, left, stop - start))
                if not count:
                    return
                start, left = start + count, left - count
                if time.perf_counter() - began < _SHORT_STEP_S:
                    step = min(2 * step, _MOST_STEP_BYTES)

    def _ranges(self) -> Iterator[tuple[Descriptor, int, int]]:
        """Yield the written ranges that do not begin in the page cache."""
        for folder in self._folders:
            names = sorted(self._fs.list_names(folder)) if self._fs.is_folder(folder) else []
            for name in names[-self._newest :] if self._newest else names:
                descriptor = self._fs.open_read(folder / name)
                for start, stop in self._fs.written_ranges(folder / name, 0):
                    if not self._fs.is_cached(descriptor, start):
                        yield descriptor, start, stop
