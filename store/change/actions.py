"""The three things a change does, each with what must be written down before it, how it is done and taken back.

    Remove   a file goes into quarantine
    Publish  a staged file takes a place; what stood there goes into quarantine
    Patch    a few bytes are overwritten in place; the old bytes go into the manifest

An entry is what the manifest says of one action:

    kind, path, reason   path is relative to the store where the file lies in it
    original             size, mtime_ns and (of smaller files) sha256 of what stood there; None when nothing did
    kept_as              where in the change's quarantine folder the file goes   (Remove, Publish)
    position, before     the bytes that were overwritten, in hex                 (Patch)
"""

from __future__ import annotations

import errno
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store.change.own_folder import relative_name
from store.disk.filesystem import Filesystem
from store.errors import StoreIOError

# Hashing bigger files would take longer than the change itself; a rename can't alter them.
HASH_SIZE_LIMIT = 32 * 1024 * 1024
PART_SUFFIX = ".part"

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Remove:
    """`path` goes into quarantine because of `reason`."""

    path: Path
    reason: str

    verb = "remove"


@dataclass(frozen=True, slots=True)
class Publish:
    """`staged`, a finished file on the same file system, becomes `path`."""

    path: Path
    staged: Path
    reason: str

    verb = "write"


@dataclass(frozen=True, slots=True)
class Patch:
    """The bytes at `position` of `path` become `after`."""

    path: Path
    position: int
    after: bytes
    reason: str

    verb = "patch"


Action = Remove | Publish | Patch


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where actions are done: the store's root, and the quarantine folder of their change."""

    root: Path
    quarantine: Path
    fs: Filesystem

    def describe(self, number: int, action: Action) -> Entry:
        """Everything that is needed to take the action back."""
        entry: Entry = {
            "kind": action.verb,
            "path": relative_name(self.root, action.path),
            "reason": action.reason,
            "original": None,
        }
        if self.fs.exists(action.path):
            status = self.fs.stat(action.path)
            entry["original"] = {"size": status.st_size, "mtime_ns": status.st_mtime_ns}
            if status.st_size <= HASH_SIZE_LIMIT:
                entry["original"]["sha256"] = hashlib.sha256(self.fs.read_file(action.path)).hexdigest()
        if isinstance(action, Patch):
            descriptor = self.fs.open_read(action.path)
            entry["position"] = action.position
            entry["before"] = self.fs.read(descriptor, action.position, len(action.after)).hex()
        else:
            entry["kept_as"] = f"files/{number:06d}-{action.path.name}"
        return entry

    def perform(self, action: Action, entry: Entry) -> None:
        if isinstance(action, Patch):
            descriptor = self.fs.open_write(action.path)
            self.fs.write(descriptor, action.position, action.after)
            self.fs.fdatasync(descriptor)
            return
        if entry["original"] is not None:
            self._move(action.path, self.quarantine / entry["kept_as"], entry["original"]["mtime_ns"])
        if isinstance(action, Publish):
            self.fs.make_folder(action.path.parent)
            self.fs.fdatasync(self.fs.open_read(action.staged))
            # consumequeue/ or index/ may be a link to another disk.
            self._move(action.staged, action.path, self.fs.stat(action.staged).st_mtime_ns)

    def take_back(self, entry: Entry) -> int:
        """Puts back what the entry's action changed, if it came to that; gives the number of files restored."""
        if entry["kind"] == Patch.verb:
            return self._take_back_patch(entry)
        path, kept = self.root / entry["path"], self.quarantine / entry["kept_as"]
        if entry["original"] is None:
            self.fs.unlink(path)
            self._remove_empty_parents(path.parent)
            return 1
        if not self.fs.exists(kept):
            return 0
        self.fs.make_folder(path.parent)
        self._move(kept, path, entry["original"]["mtime_ns"])
        return 1

    def _take_back_patch(self, entry: Entry) -> int:
        path = self.root / entry["path"]
        descriptor = self.fs.open_write(path)
        self.fs.write(descriptor, entry["position"], bytes.fromhex(entry["before"]))
        self.fs.fdatasync(descriptor)
        self.fs.utime(path, entry["original"]["mtime_ns"])
        return 1

    def _remove_empty_parents(self, folder: Path) -> None:
        while folder != self.root and folder.is_relative_to(self.root) and self.fs.remove_folder(folder):
            folder = folder.parent

    def _move(self, source: Path, target: Path, mtime_ns: int) -> None:
        try:
            self.fs.rename(source, target)
        except StoreIOError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy(source, target, mtime_ns)
            self.fs.unlink(source)

    def _copy(self, source: Path, target: Path, mtime_ns: int) -> None:
        """A quarantine on another file system: the copy is whole and durable before it gets its name, and that before
        the original goes. So a name in the quarantine always stands for all of a file."""
        size = self.fs.stat(source).st_size
        part = target.with_name(target.name + PART_SUFFIX)
        self.fs.unlink(part)
        descriptor = self.fs.create_file(part, size)
        self.fs.copy_range(self.fs.open_read(source), descriptor, 0, size)
        self.fs.utime(part, mtime_ns)
        self.fs.fsync(descriptor)
        self.fs.rename(part, target)
        self.fs.fsync_folder(target.parent)
