"""FileTree: lists, creates, renames and removes names and folders.

No operation follows a link below rmqctl's own folder (beneath.py). Operations that change a name do not follow a link
as the last component. An OSError becomes a StoreIOError with file and action.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path

from store.errors import BadRequest
from store.files.beneath import make_folders, opened_folder, parent_of
from store.files.descriptor import (
    Entry,
    FolderEntry,
    entries_below,
    entries_in,
    entry_of,
    os_errors,
    require_kind,
    require_possible,
)


class FileTree:
    """The names of the real file system; the base of Filesystem."""

    # Looking.

    def list_folder(self, folder: Path) -> list[Entry]:
        """List a folder's entries by name; a missing folder counts as empty, as in the broker."""
        with os_errors(folder, "list the folder"):
            try:
                with opened_folder(folder) as number:
                    return list(entries_in(number, folder))
            except FileNotFoundError:
                return []

    def list_below(self, root: str, folder: str) -> list[FolderEntry]:
        """List everything below a folder of `root`, at any depth, by path; a missing folder is empty."""
        return sorted(entries_below(root, folder))

    def list_names(self, folder: Path) -> list[str]:
        """List a folder's names, sorted, without any file's status; a missing folder is empty."""
        with os_errors(folder, "list the folder"):
            try:
                require_possible(folder)
                with os.scandir(folder) as entries:
                    return sorted([entry.name for entry in entries])
            except (FileNotFoundError, NotADirectoryError):
                return []

    def list_folders(self, folder: Path) -> list[str]:
        """List the names of the folders in a folder, sorted, links followed; a missing folder is empty."""
        with os_errors(folder, "list the folder"):
            try:
                with opened_folder(folder) as number, os.scandir(number) as entries:
                    return sorted([entry.name for entry in entries if _is_folder(entry)])
            except FileNotFoundError:
                return []

    def list_names_and_links(self, folder: Path) -> list[tuple[str, bool]]:
        """List a folder's names, sorted, each with whether it is a link; a missing folder is empty."""
        with os_errors(folder, "list the folder"):
            try:
                require_possible(folder)
                with os.scandir(folder) as entries:
                    return sorted([(entry.name, entry.is_symlink()) for entry in entries])
            except (FileNotFoundError, NotADirectoryError):
                return []

    def only_file(self, folder: str, name: str) -> int | None:
        """Return the size of the regular file of this name if it is alone in the folder, else None."""
        try:
            if os.listdir(folder) != [name]:  # noqa: PTH208 (a path for each of 100,000 names takes longer)
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
            return make_folders(folder)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file over the target, in one step."""
        with (
            os_errors(source, f"rename to {target}"),
            parent_of(source) as (from_folder, old),
            parent_of(target) as (to_folder, new),
        ):
            os.rename(old, new, src_dir_fd=from_folder, dst_dir_fd=to_folder)

    def unlink(self, path: Path) -> None:
        """Remove a name; a missing one is fine."""
        with (
            os_errors(path, "delete the file"),
            contextlib.suppress(FileNotFoundError),
            parent_of(path) as (folder, name),
        ):
            os.unlink(name, dir_fd=folder)

    def remove_folder(self, folder: Path) -> bool:
        """Remove a folder if it is empty; return False if it is not."""
        with os_errors(folder, "delete the folder"):
            try:
                with parent_of(folder) as (parent, name):
                    os.rmdir(name, dir_fd=parent)
            except FileNotFoundError:
                return True
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
            return True

    def remove_tree(self, folder: Path) -> None:
        """Delete a folder with its contents; for a link delete only the link."""
        if self.is_link(folder):
            self.unlink(folder)
            return
        for name, is_folder in self._list_own_folders(folder):
            if is_folder:
                self.remove_tree(folder / name)
            else:
                self.unlink(folder / name)
        self.remove_folder(folder)

    def _list_own_folders(self, folder: Path) -> list[tuple[str, bool]]:
        """List a folder's names, sorted, each with whether it is a real folder, not a link."""
        with os_errors(folder, "list the folder"):
            try:
                with opened_folder(folder) as number, os.scandir(number) as entries:
                    return sorted([(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries])
            except FileNotFoundError:
                return []

    def fsync_folder(self, folder: Path) -> None:
        """Make created and removed names in a folder durable."""
        with os_errors(folder, "flush the folder"), opened_folder(folder) as number:
            os.fsync(number)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        # A link that leads to itself is no folder.
        if error.errno == errno.ELOOP:
            return False
        raise
