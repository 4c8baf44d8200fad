"""Filesystem: the only access to os and mmap. Operations on names and folders are in file_tree.py.

Every operation turns an OSError into a StoreIOError with file and action. No other module catches OSError. Tests
replace this class by a faulty one (tests/support), so each step that can fail separately is a method.

Creating a segment:

    open_unnamed   a file without a name (O_TMPFILE), where the file system offers it
    truncate       its whole length, a hole like the one that Java leaves
    preallocate    blocks for the first bytes to be written; MappedFile.reserve continues from there
    publish        the name appears, for a file of full length

A broker refuses to start on a short segment, so a half-created file never has a segment's name.
A file is closed by dropping the last reference to its Descriptor or its map. So current readers continue, and no file
is closed under a reader (BufferError, EBADF).
No operation follows a link below rmqctl's own folder (beneath.py), and no writing operation follows a link as the last
component. Only regular files are opened: a FIFO would block, a device would act.

Relies on Linux: O_TMPFILE, O_NOATIME, copy_file_range, MADV_POPULATE_READ. Each has a portable fallback.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from store.errors import ForeignFile, StoreIOError
from store.files import lost_pages, mapping
from store.files.beneath import open_file, open_unnamed, parent_of
from store.files.descriptor import (
    COPY_CHUNK_SIZE,
    MOVE_IT_OUT,
    O_NOATIME,
    Descriptor,
    Entry,
    copy_some,
    open_no_link,
    os_errors,
)
from store.files.file_tree import FileTree
from store.files.pace import FOLIO_BYTES, STEP_BYTES, Pace, Window
from store.files.portable import advise, is_cached, next_hole, next_written, read_in, reserve_blocks, sync_data

if TYPE_CHECKING:
    from store.kernels import CommitGroups

__all__ = ["MOVE_IT_OUT", "Descriptor", "Entry", "Filesystem", "os_errors"]

GROUPS_LIMIT_MS = 10
_NO_UNNAMED_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
_NO_RANGES = (errno.EINVAL, errno.EOPNOTSUPP)
_O_TMPFILE = getattr(os, "O_TMPFILE", 0)


class Filesystem(FileTree):
    """The real file system. One instance may serve all threads.

    pace     one pace for all instances of the process
    fetches  whether bytes come from an object store, where a request costs more than a system call
    holds_log_alone  whether its store is a backup, without derived files
    passes_damage  whether bytes that a backup lacks are unreadable, as on a device; else they are an error
    """

    pace: ClassVar[Pace] = Pace()
    fetches: ClassVar[bool] = False
    holds_log_alone = False
    passes_damage = False

    # Opening.

    def open_read(self, path: Path) -> Descriptor:
        """Open a file for reading, without changing its access time if permitted (the owner's privilege)."""
        with os_errors(path, "open the file"):
            try:
                return open_file(path, os.O_RDONLY | O_NOATIME)
            except PermissionError:
                return open_file(path, os.O_RDONLY)

    def open_write(self, path: Path) -> Descriptor:
        """Open an existing file for reading and writing; a link is refused."""
        with os_errors(path, "open the file for writing"):
            try:
                return open_file(path, os.O_RDWR | os.O_NOFOLLOW)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise ForeignFile("a link, where a file is expected", file=path, hint=MOVE_IT_OUT) from None
                raise

    def open_new(self, path: Path) -> Descriptor:
        """Create an empty file under its name; an existing one is an error."""
        with os_errors(path, "create the file"):
            descriptor = open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self._listings.forget(path)
        return descriptor

    def open_unnamed(self, path: Path) -> Descriptor | None:
        """Create a file without a name, to publish as `path`; None if the file system can't."""
        if not _O_TMPFILE:
            return None
        with os_errors(path, "create the file"):
            try:
                return Descriptor(open_unnamed(path.parent, os.O_RDWR | _O_TMPFILE), path)
            except OSError as error:
                if error.errno in _NO_UNNAMED_FILES:
                    return None
                raise

    def create_file(
        self, path: Path, size: int, *, reserved: int | None = None, is_durable: bool = False
    ) -> Descriptor:
        """Create a file of `size` zero bytes that appears whole or not at all.

        The first `reserved` bytes (default: all) have blocks, so writing them can't fail on a full disk. With
        `is_durable` this also holds after a power cut, if the file system can create a file without a name."""
        reserved = size if reserved is None else min(reserved, size)
        descriptor = self.open_unnamed(path)
        if descriptor is not None:
            self._set_size(descriptor, size, reserved)
            if is_durable:
                self.fdatasync(descriptor)
            self.publish(descriptor)
            return descriptor
        descriptor = self.open_new(path)
        try:
            self._set_size(descriptor, size, reserved)
        except BaseException:
            with contextlib.suppress(StoreIOError):
                self.unlink(path)
            raise
        return descriptor

    def _set_size(self, descriptor: Descriptor, size: int, reserved: int) -> None:
        self.truncate(descriptor, size)
        self.preallocate(descriptor, 0, reserved)

    def publish(self, descriptor: Descriptor) -> None:
        """Give an unnamed file its name."""
        with os_errors(descriptor.path, "name the new file"), parent_of(descriptor.path) as (folder, name):
            # With a folder descriptor Python calls linkat; only linkat follows the link in /proc to the file.
            source, here = f"/proc/self/fd/{descriptor.number}", descriptor.number
            os.link(source, name, src_dir_fd=here, dst_dir_fd=folder, follow_symlinks=True)
        self._listings.forget(descriptor.path)

    def preallocate(self, descriptor: Descriptor, position: int, size: int) -> None:
        """Allocate blocks for a range; without blocks a write through a map dies on a full disk (SIGBUS)."""
        if size > 0:
            with os_errors(descriptor.path, f"reserve {size} bytes for the file"):
                reserve_blocks(descriptor.number, position, size)

    def map(self, descriptor: Descriptor, size: int, *, writable: bool) -> memoryview:
        """Map the first `size` bytes, shared.

        The end of the last view unmaps them; the descriptor may be closed.
        """
        with os_errors(descriptor.path, "map the file"):
            if os.fstat(descriptor.number).st_size < size:
                raise StoreIOError(f"cannot map the file: it is shorter than {size} bytes", file=descriptor.path)
            return mapping.map_file(descriptor.number, size, descriptor.path, writable=writable)

    def populate(self, path: Path, view: memoryview, start: int, stop: int) -> bool:
        """Read a map's range into memory; return False for an unreadable page (see store.files.readable)."""
        if not mapping.is_mapped(view):
            return True
        pace = self.pace
        step = STEP_BYTES if pace.bytes_per_s is not None else stop - start
        for at in range(start, stop, step or 1):
            pace.wait_for(min(step, stop - at))
            if not self._populate(path, view, at, min(at + step, stop)):
                return False
        self._give_back(pace.passed(Window(path, view, start, stop)))
        return True

    def make_writable(self, view: memoryview, start: int, stop: int) -> None:
        """Make the pages of a map's range writable; they must have blocks."""
        mapping.make_writable(view, start, stop)

    def _populate(self, path: Path, view: memoryview, start: int, stop: int) -> bool:
        with os_errors(path, "read the file"):
            try:
                return mapping.populate(view, start, stop)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
        return self._can_read(path, start, stop)

    def finish_pace(self) -> None:
        """Release all windows; call it at the end of the work, when no file is mapped."""
        self._give_back(self.pace.finish())
        if self.pace.is_cold:
            for path, stop in self.pace.walked().items():
                self._forget(path, stop + FOLIO_BYTES)

    def _give_back(self, windows: list[Window]) -> None:
        for window in windows:
            # The kernel does not drop mapped pages, so the map's pages are released first. That includes pages before
            # the window: they were released before, but a slower step of the scan may have touched them again.
            mapping.let_go(window.view, 0, window.stop)
            stop = self.pace.forgotten_before(window)
            if stop:
                self._forget(window.path, stop)

    def _forget(self, path: Path, stop: int) -> None:
        """Drop the pages of a file before `stop` from the page cache."""
        with contextlib.suppress(StoreIOError):
            self.dont_need(self.open_read(path), 0, stop)

    def _can_read(self, path: Path, start: int, stop: int) -> bool:
        """Read the range into the page cache, for kernels that can't populate maps."""
        descriptor, buffer = self.open_read(path), bytearray(min(stop - start, COPY_CHUNK_SIZE))
        with contextlib.suppress(OSError):
            while start < stop:
                count = os.preadv(descriptor.number, [memoryview(buffer)[: stop - start]], start)
                if not count:
                    return False
                start += count
            return True
        return False

    def written_ranges(self, path: Path, position: int) -> Iterator[tuple[int, int]]:
        """Return the ranges (start, stop) at or after `position` that were ever written or read.

        Reserved blocks are left out. If the file system can't list ranges, the whole rest is one range.
        """
        return self._written_ranges(self.open_read(path), position)

    def next_written(self, path: Path, position: int) -> int:
        """Return the first position at or after this one outside of holes, sys.maxsize without one."""
        descriptor = self.open_read(path)
        with os_errors(path, "look at the file"):
            found = self._next_written(descriptor.number, position) if position < self.size_of(descriptor) else None
        return sys.maxsize if found is None else found

    def written_size(self, descriptor: Descriptor) -> int:
        """Return the end of the last range that was ever written or read."""
        return max((stop for _, stop in self._written_ranges(descriptor, 0)), default=0)

    def _written_ranges(self, descriptor: Descriptor, position: int) -> Iterator[tuple[int, int]]:
        with os_errors(descriptor.path, "look at the file"):
            size = os.fstat(descriptor.number).st_size
            while position < size and (start := self._next_written(descriptor.number, position)) is not None:
                try:
                    position = next_hole(descriptor.number, start, size)
                except OSError as error:
                    if error.errno not in _NO_RANGES:
                        raise
                    position = size
                yield start, position

    def _next_written(self, number: int, position: int) -> int | None:
        try:
            return next_written(number, position)
        except OSError as error:
            if error.errno in _NO_RANGES:
                return position
            if error.errno == errno.ENXIO:
                return None
            raise

    # Reading and writing.

    def read(self, descriptor: Descriptor, position: int, size: int) -> bytes:
        """Read up to `size` bytes from `position`; fewer only at the end of the file."""
        parts = []
        try:
            while size > 0:
                part = os.pread(descriptor.number, size, position)
                if not part:
                    break
                parts.append(part)
                position += len(part)
                size -= len(part)
        except OSError as error:
            raise StoreIOError.from_os(error, descriptor.path, "read the file") from error
        return b"".join(parts)

    def read_start(self, path: str, size: int) -> bytes:
        """Return the first `size` bytes of a file without readahead, to open many small queues."""
        return self._read_start(path, size, is_alone=False) or b""

    def read_alone(self, path: str, size: int) -> bytes | None:
        """Return the first `size` bytes like `read_start`; None if bytes are written behind them."""
        return self._read_start(path, size, is_alone=True)

    def _read_start(self, path: str, size: int, *, is_alone: bool) -> bytes | None:
        number = open_no_link(path)
        try:
            advise(number, 0, 0, "POSIX_FADV_RANDOM")
            if is_alone and self._next_written(number, size) is not None:
                return None
            return os.pread(number, size, 0)
        except OSError as error:
            raise StoreIOError.from_os(error, path, "read the file") from error
        finally:
            os.close(number)

    def write(self, descriptor: Descriptor, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data` at `position`."""
        rest = memoryview(data)
        with os_errors(descriptor.path, "write the file"):
            while len(rest):
                count = os.pwrite(descriptor.number, rest, position)
                rest = rest[count:]
                position += count

    def read_file(self, path: Path) -> bytes:
        """Return the whole content of a small file."""
        descriptor = self.open_read(path)
        return self.read(descriptor, 0, self.size_of(descriptor))

    def size_of(self, descriptor: Descriptor) -> int:
        with os_errors(descriptor.path, "look at the file"):
            return os.fstat(descriptor.number).st_size

    def zero(self, descriptor: Descriptor, position: int, size: int) -> None:
        """Overwrite a range with zeros; the file keeps its length and its blocks."""
        zeros = bytes(min(size, COPY_CHUNK_SIZE))
        while size > 0:
            count = min(size, COPY_CHUNK_SIZE)
            self.write(descriptor, position, zeros[:count])
            position += count
            size -= count

    def truncate(self, descriptor: Descriptor, size: int) -> None:
        """Set the file's length; growth reads as zeros."""
        with os_errors(descriptor.path, "set the length of the file"):
            os.ftruncate(descriptor.number, size)

    def copy_range(self, source: Descriptor, target: Descriptor, position: int, size: int) -> None:
        """Copy a range to the same position of another file, inside the kernel if possible."""
        with os_errors(target.path, "copy into the file"):
            end = position + size
            while position < end:
                count = copy_some(source.number, target.number, position, end - position)
                if count == 0:
                    raise OSError(errno.EIO, f"{source.path} ends early", os.fspath(source.path))
                position += count

    def copy_written(self, source: Path, target: Descriptor, size: int) -> None:
        """Copy the written ranges of the first `size` bytes; holes of a new target stay holes."""
        descriptor = self.open_read(source)
        for start, stop in self.written_ranges(source, 0):
            if start < size:
                self.copy_range(descriptor, target, start, min(stop, size) - start)

    def is_cached(self, descriptor: Descriptor, position: int) -> bool:
        """Return whether the page cache has the byte at `position`; False if the system can't tell."""
        return is_cached(descriptor.number, position)

    def read_in(self, descriptor: Descriptor, position: int, size: int) -> int:
        """Read a range into the page cache; return the bytes read, 0 if the system can't do it."""
        with os_errors(descriptor.path, "read the file"):
            return read_in(descriptor.number, position, size)

    def dont_need(self, descriptor: Descriptor, position: int, size: int) -> None:
        """Drop clean pages of a range from the page cache."""
        advise(descriptor.number, position, size, "POSIX_FADV_DONTNEED")

    # Making durable.

    def fdatasync(self, descriptor: Descriptor) -> None:
        """Sync a file's bytes, including pages written through a map; other threads run meanwhile.

        A lost page is an error, as bytes written into it are not in the file."""
        try:
            sync_data(descriptor.number)
        except OSError as error:
            raise StoreIOError.from_os(error, descriptor.path, "flush the file") from error
        self._require_whole(descriptor)

    def sync_for_groups(
        self, descriptor: Descriptor, groups: CommitGroups, size: int, flushed_where: int, file_end: int
    ) -> tuple[int, int, int]:
        """Flush a file for groups of waiting threads in turn; return the first three values of flush_file.

        A subclass with another fdatasync flushes no group here: its caller flushes."""
        if type(self).fdatasync is not Filesystem.fdatasync:
            return 0, 0, flushed_where
        number = descriptor.number
        opened, syncs, where, code = groups.flush_file(number, size, flushed_where, file_end, GROUPS_LIMIT_MS)
        if code:
            with os_errors(descriptor.path, "flush the file"):
                raise OSError(code, os.strerror(code))
        return opened, syncs, where

    def fsync(self, descriptor: Descriptor) -> None:
        """Sync a file's bytes and its times."""
        with os_errors(descriptor.path, "flush the file"):
            os.fsync(descriptor.number)
        self._require_whole(descriptor)

    def _require_whole(self, descriptor: Descriptor) -> None:
        if lost_pages.count():
            with os_errors(descriptor.path, "look at the file"):
                file = os.fstat(descriptor.number)
            lost_pages.require_whole((file.st_dev, file.st_ino))
