"""Open files, names in a folder, and errors of the operating system as errors of the store."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from store.errors import ForeignFile, StoreIOError

NEW_FILE_MODE = 0o644
# <linux/limits.h>, in bytes.
MAX_NAME, MAX_PATH = 255, 4096
COPY_CHUNK_SIZE = 1 << 20
O_NOATIME = getattr(os, "O_NOATIME", 0)
_NO_KERNEL_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
MOVE_IT_OUT = "no broker made it; move it out of the store"
KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
    stat.S_IFLNK: "a link",
}

ODD_KIND = "something odd"

T = TypeVar("T")


class Entry(NamedTuple):
    """One name in a folder. `size` in bytes, `mtime_ns` in nanoseconds since the epoch, `kind` in words."""

    path: Path
    size: int
    mtime_ns: int
    is_folder: bool
    is_link: bool = False
    is_file: bool = True
    kind: str = "a file"


class FolderEntry(NamedTuple):
    """A name below a folder, at any depth.

    path            below a root
    size, mtime_ms  0 for a folder that is no link
    kind            in words, empty for files and folders
    is_link         whether the name is a link; the other fields describe the link's target
    """

    path: str
    is_folder: bool
    size: int
    mtime_ms: int
    kind: str = ""
    is_link: bool = False


class Descriptor:
    """An open file that closes itself with its last reference."""

    __slots__ = ("__weakref__", "number", "path")

    def __init__(self, number: int, path: Path) -> None:
        self.number = number
        self.path = path

    def fileno(self) -> int:
        return self.number

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.number)


class os_errors:  # noqa: N801 (used as a function)
    """Turn every OSError of the block into a StoreIOError about `path`.

    Each operation on a file enters one. It is a class, as a generator's context is slower.
    """

    __slots__ = ("_doing", "_path")

    def __init__(self, path: str | os.PathLike[str], doing: str) -> None:
        self._path, self._doing = path, doing

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            raise StoreIOError.from_os(error, self._path, self._doing) from error


def require_possible(path: str | os.PathLike[str]) -> None:
    """Raise FileNotFoundError for a name that no file can have: with a NUL, or beyond Linux's limits.

    Tables under config/ may have topics with such names; the store has no queue of them.
    """
    text = os.fspath(path)
    if len(text) <= MAX_NAME and text.isascii() and "\0" not in text:
        # Most paths are no longer than one name may be, so no part of them is too long.
        return
    name = os.fsencode(text)
    is_long = any(len(part) > MAX_NAME for part in name.split(b"/"))
    if b"\0" in name or is_long or len(name) >= MAX_PATH:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))


def open_number(path: str | os.PathLike[str], flags: int, folder: int | None = None) -> int:
    """Open a file; if the limit of open files is reached, raise the limit and try again."""
    if not flags & os.O_CREAT:
        require_possible(path)
    # A FIFO without a writer would block an open for ever; regular files ignore O_NONBLOCK.
    flags |= os.O_CLOEXEC | os.O_NONBLOCK
    return with_more_descriptors(lambda: os.open(path, flags, NEW_FILE_MODE, dir_fd=folder))


def entry_of(path: Path, status: os.stat_result, *, is_link: bool = False) -> Entry:
    """Return an Entry for a path with this status."""
    kind = stat.S_IFMT(status.st_mode)
    return Entry(
        path,
        status.st_size,
        status.st_mtime_ns,
        is_folder=kind == stat.S_IFDIR,
        is_link=is_link,
        is_file=kind == stat.S_IFREG,
        kind=KINDS.get(kind, ODD_KIND),
    )


def require_kind(expected: int, status: os.stat_result, path: Path) -> None:
    found = stat.S_IFMT(status.st_mode)
    if found != expected:
        raise ForeignFile(
            f"{KINDS.get(found, ODD_KIND)}, where {KINDS[expected]} is expected", file=path, hint=MOVE_IT_OUT
        )


def open_no_link(path: str) -> int:
    """Open a file for reading; a link is refused. The access time stays, if permitted."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            return os.open(path, flags | O_NOATIME)
        except PermissionError:
            return os.open(path, flags)
    except OSError as error:
        raise StoreIOError.from_os(error, path, "open the file") from error


def with_more_descriptors(action: Callable[[], T]) -> T:
    """Try again after raising the soft limit of open files to the hard one, as a JVM does at its start."""
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


def copy_some(source: int, target: int, position: int, size: int) -> int:
    """Copy some bytes of a range between open files, in the kernel if possible; return their number."""
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source, target, size, position, position)
        except OSError as error:
            if error.errno not in _NO_KERNEL_COPY:
                raise
    data = os.pread(source, min(size, COPY_CHUNK_SIZE), position)
    return os.pwrite(target, data, position)
