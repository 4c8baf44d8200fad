"""FileTree: lists, creates, renames and removes names and folders.

No operation follows a link below rmqctl's own folder (beneath.py). Operations that change a name do not follow a link
as the last component. An OSError becomes a StoreIOError with file and action.

A folder that has not changed is listed once: its times change with each name in it, so a listing holds while device,
inode, mtime and ctime stay. The status of files is no part of it: their sizes and times leave no trace in the folder.
Some mounts of object stores keep no times of folders; for these each change of a name drops the folder's listing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

from store.errors import BadRequest
from store.files.beneath import make_folders, opened_folder, parent_of
from store.files.descriptor import (
    KINDS,
    ODD_KIND,
    Entry,
    FolderEntry,
    entry_of,
    os_errors,
    require_kind,
    require_possible,
    with_more_descriptors,
)
from store.layout import OWN_FOLDER

_TICK_NS = 2 * 10**9
"""The longest tick of a file system's clock (FAT). A second change within it does not move the folder's times."""
_LEVELS_ABOVE_QUEUE_FILES = 2
"""Topics and queue ids, below consumequeue/."""
_MOST_HELD = 8192
"""Folders; the names of so many queues take some 4 MB."""


class Name(NamedTuple):
    """A name in a folder; a link to a folder is no folder."""

    text: str
    is_folder: bool
    is_link: bool


class Listings:
    """The names in folders, held until a folder changes. One instance may serve all threads."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[tuple[int, ...], list[Name]]] = {}

    def of(self, folder: str) -> list[Name]:
        """Return the folder's names, sorted; a missing folder is empty."""
        held = self._held.get(folder)
        try:
            require_possible(folder)
            if held is None and (len(self._held) >= _MOST_HELD or OWN_FOLDER in folder):
                return _read_names(folder)
            version = _version_of(folder)
            if held is not None and held[0] == version:
                return held[1]
            names = _read_names(folder)
        except FileNotFoundError:
            return []
        if version[2] < time.time_ns() - _TICK_NS:
            self._held[folder] = version, names
        return names

    def forget(self, *paths: Path) -> None:
        """Drop the listings of the folders of names that this process has made, renamed or deleted."""
        for path in paths:
            self._held.pop(os.path.dirname(path), None)  # noqa: PTH120 (faster than a path for each name)


class FileTree:
    """The names of the real file system; the base of Filesystem."""

    _listings: ClassVar[Listings] = Listings()

    # Looking.

    def list_folder(self, folder: Path) -> list[Entry]:
        """List a folder's entries by name; a missing folder counts as empty, as in the broker."""
        with os_errors(folder, "list the folder"):
            found = ((folder / name.text, name) for name in self._listings.of(os.fspath(folder)))
            return [
                entry_of(path, status, is_link=name.is_link)
                for path, name in found
                if (status := _status_of(path, name)) is not None
            ]

    def list_below(self, root: str, folder: str) -> list[FolderEntry]:
        """List everything below a folder of `root`, at any depth, by path; a missing folder is empty."""
        return sorted(_entries_below(self._listings, root, folder))

    def list_names(self, folder: Path) -> list[str]:
        """List a folder's names, sorted, without any file's status; a missing folder is empty."""
        return [name for name, _ in self.list_names_and_links(folder)]

    def list_folders(self, folder: Path) -> list[str]:
        """List the names of the folders in a folder, sorted, links followed; a missing folder is empty."""
        with os_errors(folder, "list the folder"):
            return [
                name.text
                for name in self._listings.of(os.fspath(folder))
                if name.is_folder or _leads_to_folder(folder, name)
            ]

    def list_names_and_links(self, folder: Path) -> list[tuple[str, bool]]:
        """List a folder's names, sorted, each with whether it is a link; a missing folder or a file is empty."""
        with os_errors(folder, "list the folder"), contextlib.suppress(NotADirectoryError):
            path = os.fspath(folder)
            # A listing below rmqctl's own folder refuses a file.
            if OWN_FOLDER not in path or not folder.is_file():
                return [(name.text, name.is_link) for name in self._listings.of(path)]
        return []

    def only_file(self, folder: str, name: str) -> int | None:
        """Return the size of the regular file of this name if it is alone in the folder, else None."""
        try:
            require_possible(folder)
            # Faster than a listing with the kinds of names: a store may have 100,000 queues.
            if os.listdir(folder) != [name]:  # noqa: PTH208 (a path for each takes longer)
                return None
            status = os.lstat(f"{folder}/{name}")
        except OSError:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def stat(self, path: Path) -> os.stat_result:
        with os_errors(path, "look at the file"):
            return path.stat()

    def exists(self, path: Path) -> bool:
        """Return whether the name exists; a missing permission is an error."""
        return self.bytes_at(path) is not None

    def bytes_at(self, path: Path) -> int | None:
        """Return the size of the file of this name, None without one; a missing permission is an error."""
        with os_errors(path, "look at the file"):
            try:
                require_possible(path)
                return path.stat().st_size
            except (FileNotFoundError, NotADirectoryError):
                return None

    def look_at(self, path: Path) -> Entry | None:
        """Describe the entry of this name, None without one."""
        with os_errors(path, "look at the file"):
            try:
                require_possible(path)
                return entry_of(path, path.stat(), is_link=path.is_symlink())
            except (FileNotFoundError, NotADirectoryError):
                return None

    def is_folder(self, path: Path) -> bool:
        with os_errors(path, "look at the file"):
            return path.is_dir()

    def is_link(self, path: Path) -> bool:
        with os_errors(path, "look at the file"):
            return path.is_symlink()

    def mtime_ns(self, path: Path) -> int:
        return self.stat(path).st_mtime_ns

    def utime(self, path: Path, mtime_ns: int) -> None:
        """Set the modification time (retention and search by time depend on it); the access time follows."""
        with os_errors(path, "set the time of the file"), parent_of(path) as (folder, name):
            os.utime(name, ns=(mtime_ns, mtime_ns), dir_fd=folder, follow_symlinks=False)

    def free_bytes(self, folder: Path) -> int:
        """Return the partition's free bytes for an ordinary user."""
        with os_errors(folder, "measure the partition"):
            return shutil.disk_usage(folder).free

    def capacity(self, folder: Path) -> tuple[int, int]:
        """Return the partition's bytes, and its free bytes for an ordinary user."""
        with os_errors(folder, "measure the partition"):
            usage = shutil.disk_usage(folder)
            return usage.total, usage.free

    def used_ratio(self, folder: Path) -> float:
        """Return the used share of the partition, 0..1, or -1 for a missing folder.

        Source: UtilAll.getDiskPartitionSpaceUsedPercent, 4.9.8."""
        if not self.exists(folder):
            return -1.0
        with os_errors(folder, "measure the partition"):
            total, used, free = shutil.disk_usage(folder)
        # The broker counts bytes free for an ordinary user, and rounds up to whole percents.
        percent = -(-100 * used // (used + free)) if used + free else 0
        return percent / 100 if total > 0 else -1.0

    def require_file(self, path: Path) -> None:
        """Raise ForeignFile if the name exists and is no file."""
        self._require(stat.S_IFREG, path)

    def require_folder(self, path: Path) -> None:
        """Raise ForeignFile if the name exists and is no folder."""
        self._require(stat.S_IFDIR, path)

    def require_target(self, folder: Path) -> None:
        """Raise BadRequest if a user's name for a new folder exists and is no folder."""
        if self.exists(folder) and not stat.S_ISDIR(self.stat(folder).st_mode):
            raise BadRequest("not a folder", file=folder, hint="name a folder that does not exist yet")

    def _require(self, expected: int, path: Path) -> None:
        if self.exists(path):
            require_kind(expected, self.stat(path), path)

    # Names.

    def make_folder(self, folder: Path) -> list[Path]:
        """Create a folder and its parents; return the created ones, outermost first."""
        with os_errors(folder, "create the folder"):
            made = make_folders(folder)
        self._listings.forget(*made)
        return made

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file over the target, in one step."""
        with (
            os_errors(source, f"rename to {target}"),
            parent_of(source) as (from_folder, old),
            parent_of(target) as (to_folder, new),
        ):
            os.rename(old, new, src_dir_fd=from_folder, dst_dir_fd=to_folder)
        self._listings.forget(source, target)

    def unlink(self, path: Path) -> None:
        """Remove a name; a missing one is fine."""
        with (
            os_errors(path, "delete the file"),
            contextlib.suppress(FileNotFoundError),
            parent_of(path) as (folder, name),
        ):
            os.unlink(name, dir_fd=folder)
        self._listings.forget(path)

    def remove_folder(self, folder: Path) -> bool:
        """Remove a folder if it is empty; return False if it is not."""
        with os_errors(folder, "delete the folder"):
            try:
                with parent_of(folder) as (parent, name):
                    os.rmdir(name, dir_fd=parent)
                self._listings.forget(folder)
            except FileNotFoundError:
                return True
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
            return True

    def remove_tree(self, folder: Path, *, is_kept: bool = False) -> None:
        """Delete a folder with its contents, or the contents alone; for a link delete only the link."""
        if self.is_link(folder):
            self.unlink(folder)
            return
        with os_errors(folder, "list the folder"):
            names = self._listings.of(os.fspath(folder))
        for name in names:
            if name.is_folder:
                self.remove_tree(folder / name.text)
            else:
                self.unlink(folder / name.text)
        if not is_kept:
            self.remove_folder(folder)

    def fsync_folder(self, folder: Path) -> None:
        """Make created and removed names in a folder durable."""
        with os_errors(folder, "flush the folder"), opened_folder(folder) as number:
            os.fsync(number)


def _leads_to_folder(folder: Path, name: Name) -> bool:
    try:
        return name.is_link and stat.S_ISDIR((folder / name.text).stat().st_mode)
    except OSError as error:
        # A link that leads nowhere, or to itself, is no folder.
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return False
        raise


def _version_of(folder: str) -> tuple[int, ...]:
    status = os.stat(folder)  # noqa: PTH116 (a path for each of 100,000 names takes longer)
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _read_names(folder: str) -> list[Name]:
    if OWN_FOLDER in folder:
        with opened_folder(Path(folder)) as number, os.scandir(number) as items:
            return _names_of(items)
    with with_more_descriptors(lambda: os.scandir(folder)) as items:
        return _names_of(items)


def _names_of(items: Iterator[os.DirEntry[str]]) -> list[Name]:
    return sorted([Name(item.name, item.is_dir(follow_symlinks=False), item.is_symlink()) for item in items])


def _entries_below(listings: Listings, root: str, folder: str) -> Iterator[FolderEntry]:
    """List everything below a folder of `root`, at any depth.

    Below a link the listing ends at the depth of a queue's files, as a link may lead anywhere. As a store may have
    100,000 queues, paths are text, and no status of folders is read."""
    folders = [(folder, 0, False)]
    while folders:
        parent, depth, is_linked = folders.pop()
        with os_errors(f"{root}/{parent}", "list the folder"):
            for name in listings.of(f"{root}/{parent}"):
                entry = _entry_below(root, f"{parent}/{name.text}", name)
                if entry is None:
                    continue
                yield entry
                may_lead_anywhere = is_linked or entry.is_link
                if entry.is_folder and not (may_lead_anywhere and depth >= _LEVELS_ABOVE_QUEUE_FILES):
                    folders.append((entry.path, depth + 1, may_lead_anywhere))


def _entry_below(root: str, path: str, name: Name) -> FolderEntry | None:
    if name.is_folder:
        return FolderEntry(path, True, 0, 0)
    status = _status_of(f"{root}/{path}", name)
    if status is None:
        return None
    is_folder, is_file = stat.S_ISDIR(status.st_mode), stat.S_ISREG(status.st_mode)
    kind = "" if is_file or is_folder else KINDS.get(stat.S_IFMT(status.st_mode), ODD_KIND)
    return FolderEntry(path, is_folder, status.st_size, status.st_mtime_ns // 1_000_000, kind, name.is_link)


def _status_of(path: str | Path, name: Name) -> os.stat_result | None:
    """Return the status of a name, links followed; None for a deleted file."""
    try:
        return os.stat(path)  # noqa: PTH116 (a path for each of 100,000 names takes longer)
    except OSError:
        # A live broker deletes old files while its folder is being listed. A dangling link is a name.
        return os.lstat(path) if name.is_link else None
