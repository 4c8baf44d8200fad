"""Reads the beginning of a command's walk into the page cache, beside the imports.

A command knows its store a tenth of a second before its walk begins, and the device would rest meanwhile. The kernel
reads alone (sendfile to /dev/null): nothing is mapped or copied here. A range that begins in the page cache is passed
over: it is mostly there as a whole, and reading it again would cost a processor.

The files are a guess, so no more than LONGEST_S and MOST_BYTES go into it. What can't be read is left to the walk.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Thread

from store.errors import StoreError
from store.files.filesystem import Descriptor, Filesystem

LONGEST_S = 0.2
"""Longer than the imports take on a busy machine."""
MOST_BYTES = 512 << 20
_FIRST_STEP_BYTES, _MOST_STEP_BYTES = 8 << 20, 128 << 20
_SHORT_STEP_S = 0.02
"""Behind each step the thread waits for the interpreter, up to 5 ms beside one that imports."""


class EarlyRead:
    """Read the files of folders in, in the order of their names, by a thread.

    newest  takes so many of each folder alone
    """

    def __init__(self, folders: Iterable[Path], newest: int | None = None, fs: Filesystem | None = None) -> None:
        self._folders, self._newest = list(folders), newest
        self._fs = fs or Filesystem()
        self._is_over = False
        # A device that hangs must not keep the process from its end.
        self._thread = Thread(target=self._run, name="early read", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait for the step that is being read; nothing is read after it."""
        self._is_over = True
        self._thread.join()

    def _run(self) -> None:
        try:
            self._read()
        except StoreError:
            # Whoever needs these bytes meets the same, and names it.
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
        """Find the written ranges that are not in the page cache."""
        for folder in self._folders:
            names = sorted(self._fs.list_names(folder)) if self._fs.is_folder(folder) else []
            for name in names[-self._newest :] if self._newest else names:
                descriptor = self._fs.open_read(folder / name)
                for start, stop in self._fs.written_ranges(folder / name, 0):
                    if not self._fs.is_cached(descriptor, start):
                        yield descriptor, start, stop
