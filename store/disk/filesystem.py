"""Filesystem: the only door to os and mmap.

Every operation turns an OSError into a StoreIOError that names the file and what was being done, so that no other
module catches OSError. A test puts a faulty one in its place (tests/support/faulty_filesystem.py), which is why each
step that can fail by itself is a method of its own.

Creating a segment:

    open_unnamed   a file without a name (O_TMPFILE), where the file system offers it
    preallocate    blocks for its whole length, so that a write through the map can't die of a full disk (SIGBUS)
    publish        the name appears, with a file of full length behind it

A broker refuses to start on a short segment, therefore no half-created file is ever seen under a segment's name.

A file is given up by dropping the last reference to its Descriptor or its map: whoever still reads goes on reading, and
closing under a reader (BufferError, EBADF) can't happen.

Relies on Linux: O_TMPFILE, O_NOATIME, fallocate, copy_file_range. Each has a portable way behind it.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from store.errors import StoreIOError

NEW_FILE_MODE = 0o644
COPY_CHUNK_SIZE = 1 << 20
_NO_UNNAMED_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
_NO_KERNEL_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
_O_NOATIME = getattr(os, "O_NOATIME", 0)
_O_TMPFILE = getattr(os, "O_TMPFILE", 0)

T = TypeVar("T")


class Entry(NamedTuple):
    """One name in a folder. `size` in bytes, `mtime_ns` in nanoseconds since the epoch."""

    path: Path
    size: int
    mtime_ns: int
    is_folder: bool


class Descriptor:
    """An open file that closes itself when nobody refers to it any more."""

    __slots__ = ("number", "path")

    def __init__(self, number: int, path: Path) -> None:
        self.number = number
        self.path = path

    def fileno(self) -> int:
        return self.number

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.number)


@contextlib.contextmanager
def os_errors(path: str | os.PathLike[str], doing: str) -> Iterator[None]:
    """Whatever the operating system refuses inside the block becomes a StoreIOError about `path`."""
    try:
        yield
    except OSError as error:
        raise StoreIOError.from_os(error, path, doing) from error


class Filesystem:
    """The real file system. Stateless; one instance may serve all threads."""

    # Looking.

    def list_folder(self, folder: Path) -> list[Entry]:
        """What lies in a folder, sorted by name; a missing folder is empty, as the broker sees it."""
        with os_errors(folder, "list the folder"):
            try:
                found = list(os.scandir(folder))
            except FileNotFoundError:
                return []
            return sorted(_entries(found))

    def stat(self, path: Path) -> os.stat_result:
        with os_errors(path, "look at the file"):
            return path.stat()

    def exists(self, path: Path) -> bool:
        """Whether the name is there; no permission to look is an error, not an absence."""
        with os_errors(path, "look at the file"):
            try:
                path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def mtime_ns(self, path: Path) -> int:
        return self.stat(path).st_mtime_ns

    def utime(self, path: Path, mtime_ns: int) -> None:
        """Sets the modification time (retention and search by time depend on it); the access time follows."""
        with os_errors(path, "set the time of the file"):
            os.utime(path, ns=(mtime_ns, mtime_ns))

    def used_ratio(self, folder: Path) -> float:
        """Used share of the partition, 0..1, or -1 for a missing folder.

        Source: UtilAll.getDiskPartitionSpaceUsedPercent, 4.9.8."""
        if not self.exists(folder):
            return -1.0
        with os_errors(folder, "measure the partition"):
            total, used, free = shutil.disk_usage(folder)
        # The broker counts what an ordinary user may still take, and rounds up to whole percents.
        percent = -(-100 * used // (used + free)) if used + free else 0
        return percent / 100 if total > 0 else -1.0

    def free_bytes(self, folder: Path) -> int:
        """Bytes that an ordinary user may still write on the folder's partition."""
        with os_errors(folder, "measure the partition"):
            return shutil.disk_usage(folder).free

    # Opening.

    def open_read(self, path: Path) -> Descriptor:
        """Opens without touching the access time where that is permitted (the owner's privilege)."""
        with os_errors(path, "open the file"):
            try:
                return Descriptor(_open(path, os.O_RDONLY | _O_NOATIME), path)
            except PermissionError:
                return Descriptor(_open(path, os.O_RDONLY), path)

    def open_write(self, path: Path) -> Descriptor:
        """Opens an existing file for reading and writing."""
        with os_errors(path, "open the file for writing"):
            return Descriptor(_open(path, os.O_RDWR), path)

    def open_new(self, path: Path) -> Descriptor:
        """Creates an empty file under its name; an existing one is an error."""
        with os_errors(path, "create the file"):
            return Descriptor(_open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), path)

    def open_unnamed(self, path: Path) -> Descriptor | None:
        """Creates a file without a name, to be published as `path`; None where that is not offered."""
        if not _O_TMPFILE:
            return None
        with os_errors(path, "create the file"):
            try:
                return Descriptor(_open(path.parent, os.O_RDWR | _O_TMPFILE), path)
            except OSError as error:
                if error.errno in _NO_UNNAMED_FILES and path.parent.is_dir():
                    return None
                raise

    def create_file(self, path: Path, size: int) -> Descriptor:
        """Creates a file of `size` zero bytes with its blocks reserved; it appears whole or not at all."""
        descriptor = self.open_unnamed(path)
        if descriptor is not None:
            self.preallocate(descriptor, size)
            self.publish(descriptor)
            return descriptor
        descriptor = self.open_new(path)
        try:
            self.preallocate(descriptor, size)
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        return descriptor

    def publish(self, descriptor: Descriptor) -> None:
        """Gives an unnamed file its name."""
        with os_errors(descriptor.path, "name the new file"):
            # Given any folder descriptor, Python calls linkat, which alone follows the link in /proc to the file.
            source = f"/proc/self/fd/{descriptor.number}"
            os.link(source, descriptor.path, src_dir_fd=descriptor.number, follow_symlinks=True)

    def preallocate(self, descriptor: Descriptor, size: int) -> None:
        """Makes the file `size` bytes long with blocks behind all of it."""
        with os_errors(descriptor.path, f"reserve {size} bytes for the file"):
            os.posix_fallocate(descriptor.number, 0, size)

    def map(self, descriptor: Descriptor, size: int, *, writable: bool) -> mmap.mmap:
        """Maps the first `size` bytes, shared. Never close the map: drop it, the last view takes it along."""
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        with os_errors(descriptor.path, "map the file"):
            try:
                return _with_more_descriptors(lambda: mmap.mmap(descriptor.number, size, access=access))
            except ValueError as error:
                raise StoreIOError(
                    f"cannot map the file: it is shorter than {size} bytes", file=descriptor.path
                ) from error

    def written_ranges(self, path: Path, position: int) -> Iterator[tuple[int, int]]:
        """The ranges (start, stop) at or behind `position` in which anything was ever written or read.

        Reserved blocks are left out; where the file system can't tell, all of the rest is one range.
        """
        descriptor = self.open_read(path)
        with os_errors(path, "look at the file"):
            size = os.fstat(descriptor.number).st_size
            while position < size:
                try:
                    start = os.lseek(descriptor.number, position, os.SEEK_DATA)
                    position = os.lseek(descriptor.number, start, os.SEEK_HOLE)
                except OSError as error:
                    if error.errno == errno.ENXIO:
                        return
                    if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                        raise
                    start, position = position, size
                yield start, position

    # Reading and writing.

    def read(self, descriptor: Descriptor, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""
        with os_errors(descriptor.path, "read the file"):
            parts = []
            while size > 0:
                part = os.pread(descriptor.number, size, position)
                if not part:
                    break
                parts.append(part)
                position += len(part)
                size -= len(part)
            return b"".join(parts)

    def write(self, descriptor: Descriptor, position: int, data: bytes | bytearray | memoryview) -> None:
        """Writes all of `data` at `position`."""
        rest = memoryview(data)
        with os_errors(descriptor.path, "write the file"):
            while len(rest):
                count = os.pwrite(descriptor.number, rest, position)
                rest = rest[count:]
                position += count

    def read_file(self, path: Path) -> bytes:
        """The whole content of a small file."""
        descriptor = self.open_read(path)
        with os_errors(path, "read the file"):
            size = os.fstat(descriptor.number).st_size
        return self.read(descriptor, 0, size)

    def zero(self, descriptor: Descriptor, position: int, size: int) -> None:
        """Overwrites a range with zeros; the file keeps its length and its blocks."""
        zeros = bytes(min(size, COPY_CHUNK_SIZE))
        while size > 0:
            count = min(size, COPY_CHUNK_SIZE)
            self.write(descriptor, position, zeros[:count])
            position += count
            size -= count

    def truncate(self, descriptor: Descriptor, size: int) -> None:
        """Sets the file's length; growth reads as zeros."""
        with os_errors(descriptor.path, "set the length of the file"):
            os.ftruncate(descriptor.number, size)

    def copy_range(self, source: Descriptor, target: Descriptor, position: int, size: int) -> None:
        """Copies a range to the same place of another file, inside the kernel where it can."""
        with os_errors(target.path, "copy into the file"):
            end = position + size
            while position < end:
                count = _copy_some(source.number, target.number, position, end - position)
                if count == 0:
                    raise OSError(errno.EIO, f"{source.path} ends early", os.fspath(source.path))
                position += count

    def will_need(self, descriptor: Descriptor, position: int, size: int) -> None:
        """Asks the kernel to begin reading a range."""
        with contextlib.suppress(OSError):
            os.posix_fadvise(descriptor.number, position, size, os.POSIX_FADV_WILLNEED)

    def dont_need(self, descriptor: Descriptor, position: int, size: int) -> None:
        """Lets the kernel forget clean pages of a range."""
        with contextlib.suppress(OSError):
            os.posix_fadvise(descriptor.number, position, size, os.POSIX_FADV_DONTNEED)

    # Making durable.

    def fdatasync(self, descriptor: Descriptor) -> None:
        """Pages dirtied through a map are covered, and the interpreter is free meanwhile."""
        try:
            os.fdatasync(descriptor.number)
        except OSError as error:
            raise StoreIOError.from_os(error, descriptor.path, "flush the file") from error

    def fsync(self, descriptor: Descriptor) -> None:
        """As fdatasync, and the file's times with it."""
        with os_errors(descriptor.path, "flush the file"):
            os.fsync(descriptor.number)

    def fsync_folder(self, folder: Path) -> None:
        """Makes names that appeared or went durable."""
        with os_errors(folder, "flush the folder"):
            number = _open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    # Names.

    def make_folder(self, folder: Path) -> None:
        """Creates a folder and its parents; an existing one is fine."""
        with os_errors(folder, "create the folder"):
            folder.mkdir(parents=True, exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        """Moves a file over whatever has the target's name, in one step."""
        with os_errors(source, f"rename to {target}"):
            source.rename(target)

    def unlink(self, path: Path) -> None:
        """Removes a name; one that is gone already is fine."""
        with os_errors(path, "delete the file"):
            path.unlink(missing_ok=True)

    def remove_folder(self, folder: Path) -> bool:
        """Removes a folder if it is empty; False when something is still in it."""
        with os_errors(folder, "delete the folder"):
            try:
                folder.rmdir()
            except FileNotFoundError:
                return True
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
            return True


def _entries(found: list[os.DirEntry[str]]) -> Iterator[Entry]:
    for item in found:
        try:
            status = item.stat()
        except FileNotFoundError:
            # A live broker deletes old files while its folder is being listed. A dangling link is a name, of length 0.
            if not item.is_symlink():
                continue
            status = item.stat(follow_symlinks=False)
        yield Entry(Path(item.path), status.st_size, status.st_mtime_ns, item.is_dir())


def _open(path: Path, flags: int) -> int:
    return _with_more_descriptors(lambda: os.open(path, flags | os.O_CLOEXEC, NEW_FILE_MODE))


def _with_more_descriptors(action: Callable[[], T]) -> T:
    """Tries once more after raising the soft limit of open files to the hard one, as a JVM does at its start."""
    try:
        return action()
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == hard:
            raise
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return action()


def _copy_some(source: int, target: int, position: int, size: int) -> int:
    try:
        return os.copy_file_range(source, target, size, position, position)
    except OSError as error:
        if error.errno not in _NO_KERNEL_COPY:
            raise
    data = os.pread(source, min(size, COPY_CHUNK_SIZE), position)
    return os.pwrite(target, data, position)
