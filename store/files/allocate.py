"""AllocateMappedFileService: creates the next file while the current one is being filled.

    take(A)   gives A, made ahead or made now, and asks for the file behind A
    thread    makes the files asked for, and warms them if configured
    stop()    ends the thread and deletes files not taken: a cleanly closed store has no spare file,
              a crashed one has a spare file of zeros at its end, as a broker's

Making a file ahead may fail (no space yet). Then take() tries again itself, so that only a file that is really needed
can fail a put.

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


class _Request:
    """One file asked for. `done` is set when `file` is there or could not be made."""

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
    """One background thread for any number of queues; in practice the commit log's alone."""

    def __init__(self, fs: Filesystem, *, warm: bool = False, transient_pool: TransientStorePool | None = None) -> None:
        self._fs = fs
        self._warm = warm
        self.transient_pool = transient_pool
        """Where its files take their write buffers from, None where they have none."""
        self._lock = threading.Condition()
        self._ahead: dict[Path, _Request] = {}
        self._todo: deque[_Request] = deque()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def take(self, folder: Path, file_start: int, size: int, next_folder: Path | None = None) -> MappedFile:
        """Return the file that starts at `file_start`; StoreIOError when it can't be created.

        The file after it is made ahead in `next_folder`, without one in the same folder."""
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
                self._start_thread()
                self._lock.notify_all()
            return request

    def _wait_for(self, request: _Request) -> MappedFile | None:
        request.done.wait()
        with self._lock:
            # stop() may have been faster, and then the file is deleted.
            taken = self._ahead.pop(request.path, None)
        return request.file if taken is request else None

    def _start_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=type(self).__name__)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._todo and not self._is_over():
                    self._lock.wait(0.5)
                if self._is_over():
                    self._stopped = True
                    # Whoever still waits gets no file and makes its own.
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
            # Not lost: the one who takes this file tries again and gets the error.
            request.file = None
        finally:
            request.done.set()

    def _create(self, request: _Request) -> MappedFile:
        # After a power cut no file may be there without the one before it, or with a part of its length.
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
