"""AllocateMappedFileService: creates the next file while the current one is being filled.

    take(A)   returns file A, created ahead or now, and requests the file after A
    thread    creates requested files, and warms them if configured
    stop()    ends the thread; delete_unused() then deletes files that were not taken. So a closed store has no
              spare file, while a crashed store ends with a spare file of zeros, as a broker's does

Creating a file ahead may fail (no space yet). take() then tries again itself, so a put fails only for the file that it
needs.

Source: AllocateMappedFileService, 4.9.8.
"""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path

from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.mapped_file import MappedFile
from store.files.transient_pool import TransientStorePool
from store.layout import segment_name
from store.threads import Worker


class _Request:
    """A request for one file. `done` is set once `file` is created or has failed."""

    __slots__ = ("done", "file", "file_start", "folder", "size")

    def __init__(self, folder: Path, file_start: int, size: int) -> None:
        self.folder = folder
        self.file_start = file_start
        self.size = size
        self.file: MappedFile | None = None
        self.done = threading.Event()

    @property
    def path(self) -> Path:
        return self.folder / segment_name(self.file_start)


class AllocateMappedFileService:
    """One background thread for any number of queues; in practice only for the commit log."""

    def __init__(self, fs: Filesystem, *, warm: bool = False, transient_pool: TransientStorePool | None = None) -> None:
        self._fs = fs
        self._warm = warm
        self.transient_pool = transient_pool
        """The pool of write buffers for its files, None without a pool."""
        self._lock = threading.Condition()
        self._ahead: dict[Path, _Request] = {}
        self._todo: deque[_Request] = deque()
        self._stopped = False
        self._thread: Worker | None = None

    def take(self, folder: Path, file_start: int, size: int, next_folder: Path | None = None) -> MappedFile:
        """Return the file that starts at `file_start`; StoreIOError when it can't be created.

        The next file is created ahead in `next_folder`, by default in the same folder."""
        request = self._ask_for(folder, file_start, size)
        file = self._wait_for(request) if request is not None else None
        if file is None:
            file = self._create(_Request(folder, file_start, size))
        self._ask_for(next_folder or folder, file_start + size, size)
        return file

    def stop(self) -> None:
        """End the thread. A later take() creates its file itself."""
        with self._lock:
            self._stopped = True
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join()

    def delete_unused(self) -> None:
        """Delete the files that were not taken; call it after stop()."""
        with self._lock:
            unused = [request.file for request in self._ahead.values() if request.file is not None]
            self._ahead.clear()
            self._todo.clear()
        for file in unused:
            file.destroy()

    def _ask_for(self, folder: Path, file_start: int, size: int) -> _Request | None:
        wanted = _Request(folder, file_start, size)
        with self._lock:
            if self._stopped:
                return None
            request = self._ahead.get(wanted.path)
            if request is None:
                request = self._ahead[wanted.path] = wanted
                self._todo.append(wanted)
                if self._thread is None:
                    self._thread = Worker(self._run, type(self).__name__)
                    self._thread.start()
                self._lock.notify_all()
            return request

    def _wait_for(self, request: _Request) -> MappedFile | None:
        request.done.wait()
        with self._lock:
            # stop() may have been faster, and then the file is deleted.
            taken = self._ahead.pop(request.path, None)
        return request.file if taken is request else None

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._todo and not self._is_over():
                    self._lock.wait(0.5)
                if self._is_over():
                    self._stopped = True
                    # Callers that still wait get no file and create their own.
                    for request in self._todo:
                        request.done.set()
                    return
                request = self._todo.popleft()
            self._serve(request)

    def _is_over(self) -> bool:
        # A program that ends without closing its store must not be kept alive by this thread.
        return self._stopped or not threading.main_thread().is_alive()

    def _serve(self, request: _Request) -> None:
        try:
            request.file = self._create(request)
        except StoreError:
            # The error is not lost: take() tries again and raises it.
            request.file = None
        finally:
            request.done.set()

    def _create(self, request: _Request) -> MappedFile:
        # After a power cut, no file may exist without the previous one, or with a part of its length.
        self._fs.fsync_folder(request.folder)
        file = MappedFile.create(
            request.path,
            request.file_start,
            request.size,
            self._fs,
            transient_pool=self.transient_pool,
            keeps_descriptor=True,
            is_durable=True,
        )
        if self._warm:
            try:
                file.warm()
            except StoreError:
                file.destroy()
                raise
        return file
