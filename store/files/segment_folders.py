"""SegmentFolders: the segments of a log that is spread over several folders.

    storePathCommitLog=/a,/b           segments are created in these
    readOnlyCommitLogStorePaths=/c     segments are only read, and deleted when they expire

    folder of the segment at X     A[(X / file size) % |A|]; A: writable, not read-only, not full, sorted by name
    all of A full                  the same over all writable folders
    load                           one list over all folders, sorted by file name; a missing folder is empty

If two folders have the same name, the broker loads it twice and its addressing breaks. Here that is refused.
In DLedger mode the log is in dledger-<id>/data, or in the folders of storePathDLedgerCommitLog. Older plain segments
are in commitlog/, and only read.

Source: MultiPathMappedFileQueue, 4.9.8; DLedgerConfig (dledger 0.3.1.2).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from store.config import LOG_PATHS
from store.errors import BadRequest, ForeignFile, StoreIOError
from store.files.filesystem import Entry, Filesystem

MEMBER_PREFIX = "dledger-"
MEMBER_PATHS = LOG_PATHS[1]


def find_member_logs(root: Path, fs: Filesystem) -> list[Path]:
    """Return the folders of members with a DLedger log below a store's root."""
    return [folder for folder in find_members(root, fs) if fs.is_folder(folder / "data")]


def find_members(root: Path, fs: Filesystem) -> list[Path]:
    """Return the folders of DLedger members, with or without entries."""
    if not fs.is_folder(root):
        return []
    names = (entry.path.name for entry in fs.list_folder(root))
    return [root / name for name in names if name.startswith(MEMBER_PREFIX) and fs.is_folder(root / name)]


def member_log(dledger: Path, fs: Filesystem) -> tuple[Path, ...]:
    """Return the log's folders in DLedger mode: of the entries, and of older plain segments if any."""
    plain = dledger.parent / "commitlog"
    return (dledger / "data", plain) if fs.is_folder(plain) else (dledger / "data",)


def find_member(root: Path, settings: Mapping[str, object], fs: Filesystem) -> Path | None:
    """Return the folder of the member with id dLegerSelfId, by default the only one.

    None without DLedger mode.
    """
    enabled = str(settings.get("enableDLegerCommitLog", "")).strip().lower()
    if enabled == "false":
        return None
    is_elsewhere = bool(str(settings.get(MEMBER_PATHS) or "").strip())
    found = find_members(root, fs) if is_elsewhere else find_member_logs(root, fs)
    name = str(settings.get("dLegerSelfId") or "").strip()
    if is_elsewhere and not found and enabled == "true":
        # The member's own folder is lost, but its entries are in other folders.
        return root / f"{MEMBER_PREFIX}{name or 'n0'}"
    if name:
        found = [folder for folder in found if folder.name == MEMBER_PREFIX + name]
    if len(found) > 1:
        names = ", ".join(folder.name for folder in found)
        raise BadRequest(f"the logs of several members of a DLedger group: {names}", file=root, code="several-dledgers")
    return found[0] if found else None


class SegmentFolders:
    """The folders of a log. `full` folders get no new segment while others can."""

    def __init__(self, writable: tuple[Path, ...], read_only: tuple[Path, ...] = (), file_size: int = 1) -> None:
        self.all = tuple(dict.fromkeys((*writable, *read_only)))
        self.full: frozenset[Path] = frozenset()
        self._usable = sorted(set(writable) - set(read_only), key=str)
        self._file_size = file_size

    def entries(self, fs: Filesystem) -> list[Entry]:
        """Return entries of all folders, sorted by name; ForeignFile for a name in two of them."""
        found = sorted(
            (entry for folder in self.all for entry in fs.list_folder(folder)), key=lambda entry: entry.path.name
        )
        for before, entry in pairwise(found):
            if before.path.name == entry.path.name:
                raise ForeignFile(
                    f"the same name is in {before.path.parent}",
                    file=entry.path,
                    hint="move the one of zeros away, a broker that was killed leaves it; both at once cannot be read",
                )
        return found

    def folder_of(self, file_start: int) -> Path:
        """Return the folder for the segment at `file_start`; StoreIOError if all are read-only."""
        usable = self._usable
        if self.full:
            usable = [path for path in usable if path not in self.full] or usable
        if not usable:
            raise StoreIOError("every folder of storePathCommitLog is read-only", file=self.all[0])
        return usable[file_start // self._file_size % len(usable)]


class UnsyncedFolders:
    """Folders with names that are not durable yet: a file is lost with its folder.

    File queues may share one object, so that a folder with many new names is synced once.
    """

    def __init__(self) -> None:
        self._folders: set[Path] = set()
        self._change_lock = threading.Lock()
        self._sync_lock = threading.Lock()

    @property
    def are_left(self) -> bool:
        """Whether a folder waits for its sync."""
        return bool(self._folders)

    def add(self, folders: Iterable[Path]) -> None:
        """Add folders with new names."""
        with self._change_lock:
            self._folders.update(folders)

    def sync(self, fs: Filesystem) -> None:
        """Make the names durable; wait for a running sync of another thread."""
        from store.files.durable import sync_folders

        with self._sync_lock:
            with self._change_lock:
                taken, self._folders = self._folders, set()
            try:
                sync_folders(sorted(taken), fs)
            except BaseException:
                self.add(taken)
                raise
