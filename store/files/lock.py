"""The `lock` byte and the `abort` marker: the store's owner, and whether the last owner shut down.

StoreLock takes the advisory lock (fcntl) on byte 0 of ROOT/lock. A Java broker takes the same lock, by
FileChannel.tryLock(0, 1, false); so a running broker and rmqctl keep each other out. The file's content is b"lock".

Two properties of fcntl locks shape this class. A lock belongs to the process, so a table here refuses a second
StoreLock in the same process. And closing *any* descriptor of the file drops the lock: while it is held, no code of
this process may open and close ROOT/lock (as copying a store's files would).

AbortMarker is ROOT/abort: created at start, removed at the end of a clean shutdown. 4.x leaves it empty, 5.x writes its
process id.

Source: DefaultMessageStore.start and createTempFile, 4.9.8.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import threading
import weakref
from pathlib import Path
from typing import Self

from store.errors import StoreIOError, StoreLocked
from store.files.filesystem import Descriptor, Filesystem, os_errors

LOCK_CONTENT = b"lock"
LOCKED_BYTES = 1
# struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid.
_FLOCK = struct.Struct("hhqqi4x")

_held_here: weakref.WeakValueDictionary[tuple[int, int], Descriptor] = weakref.WeakValueDictionary()
"""By device and inode. A freed descriptor drops its lock, and then another file may get the inode."""
_held_here_lock = threading.Lock()


class StoreLock:
    """The lock of one store.

    `acquire` raises StoreLocked when another process holds it.
    """

    def __init__(self, path: Path, fs: Filesystem) -> None:
        self.path = path
        self._fs = fs
        self._descriptor: Descriptor | None = None
        self._identity = (0, 0)

    def acquire(self) -> None:
        """Take the lock or raise at once; create the file if needed. Taking it twice is fine."""
        if self._descriptor is not None:
            return
        with _held_here_lock:
            # The table is checked before opening the file: closing a second descriptor would drop the first lock.
            if self._fs.exists(self.path) and _identity(self._fs.stat(self.path)) in _held_here:
                raise _locked(self.path, os.getpid())
            descriptor = self._open()
            self._lock(descriptor)
            self._identity = _identity(self._fs.stat(self.path))
            _held_here[self._identity] = descriptor
            self._descriptor = descriptor
        try:
            if self._fs.read(descriptor, 0, len(LOCK_CONTENT) + 1) != LOCK_CONTENT:
                self._fs.write(descriptor, 0, LOCK_CONTENT)
                self._fs.truncate(descriptor, len(LOCK_CONTENT))
                self._fs.fdatasync(descriptor)
        except StoreIOError:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock; the file stays, as after a broker's shutdown."""
        with _held_here_lock:
            if self._descriptor is not None:
                with os_errors(self.path, "unlock the store"):
                    fcntl.lockf(self._descriptor, fcntl.LOCK_UN, LOCKED_BYTES)
                _held_here.pop(self._identity, None)
                self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def _open(self) -> Descriptor:
        try:
            return self._fs.open_new(self.path)
        except StoreIOError as error:
            if error.errno != errno.EEXIST:
                raise
        return self._fs.open_write(self.path)

    def _lock(self, descriptor: Descriptor) -> None:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, LOCKED_BYTES)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise _locked(self.path, _holder(descriptor)) from None
            raise StoreIOError.from_os(error, self.path, "lock the store") from error


def is_locked(path: Path, fs: Filesystem) -> bool:
    """Return whether a live broker or another rmqctl holds the lock, without taking it or writing."""
    return fs.exists(path) and holding_process(path, fs) is not None


def holding_process(path: Path, fs: Filesystem) -> int | None:
    """Return the id of the process that holds the lock of an existing file, None without one.

    The id is 0 for a process in another container.
    """
    with _held_here_lock:
        if _identity(fs.stat(path)) in _held_here:
            return os.getpid()
        return _holder(fs.open_read(path))


class AbortMarker:
    """ROOT/abort. While it exists, the store counts as not shut down."""

    def __init__(self, path: Path, fs: Filesystem) -> None:
        self.path = path
        self._fs = fs

    def exists(self) -> bool:
        return self._fs.exists(self.path)

    def create(self, process_id: int | None = None) -> None:
        """Create the marker durably; an existing one is fine.

        process_id  the content, as a 5.x broker writes it; abort.bak gets the previous content
        """
        before = self._fs.read_file(self.path) if process_id is not None and self.exists() else b""
        try:
            self._fs.open_new(self.path)
        except StoreIOError as error:
            if error.errno != errno.EEXIST:
                raise
        if process_id is not None:
            self._write(self.path.with_name(f"{self.path.name}.bak"), before)
            self._write(self.path, str(process_id).encode())
        self._fs.fsync_folder(self.path.parent)

    def _write(self, path: Path, content: bytes) -> None:
        descriptor = self._fs.open_write(path) if self._fs.exists(path) else self._fs.open_new(path)
        self._fs.truncate(descriptor, 0)
        self._fs.write(descriptor, 0, content)
        self._fs.fdatasync(descriptor)

    def remove(self) -> None:
        """Remove the marker durably."""
        self._fs.unlink(self.path)
        self._fs.fsync_folder(self.path.parent)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _locked(path: Path, process_id: int | None) -> StoreLocked:
    holder = f"process {process_id}" if process_id else "another process"
    return StoreLocked(
        f"the store is in use by {holder}",
        file=path,
        hint="stop the broker (or wait for the other command); reading commands work beside it",
    )


def _holder(descriptor: Descriptor) -> int | None:
    """Return the id of the process that holds the lock; 0 and None as in `holding_process`."""
    question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, LOCKED_BYTES, 0)
    with contextlib.suppress(OSError, struct.error):
        kind, *_, process_id = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
        return max(process_id, 0) if kind != fcntl.F_UNLCK else None
    return None
