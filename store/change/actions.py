"""The three actions of a change: how each is recorded beforehand, performed and undone.

    Remove   a file is moved into quarantine
    Publish  a staged file is moved to its path; the previous file is moved into quarantine
    Patch    a few bytes are overwritten in place; the old bytes go into the manifest

The manifest has an entry for each action:

    kind, path, reason   path is relative to the store for a file inside of it
    original             size, mtime_ns and (of smaller files) sha256 of the previous file; None without one
    kept_as              the previous file's path in the change's quarantine folder   (Remove, Publish)
    published            size and mtime_ns of the staged file                         (Publish)
    position             of the bytes; `before` and `after` are the bytes in hex      (Patch)

Undoing never destroys later writes of other programs. A file that is neither the published nor the original one is
moved to later/ in quarantine before the original returns; bytes that are neither `before` nor `after` stay.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store.change.manifest import sha256_of
from store.change.workspace import require_no_link, stored_name
from store.errors import DamagedFile, StoreIOError
from store.files.filesystem import Filesystem

# Hashing bigger files would take longer than the change itself; a rename can't alter them.
HASH_SIZE_LIMIT = 32 * 1024 * 1024
PART_SUFFIX = ".part"
LATER = "later"

ManifestEntry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Remove:
    """Move `path` into quarantine because of `reason`."""

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


def replace_files(old: Iterable[Path], staged: Mapping[Path, Path]) -> list[Action]:
    """Plan to remove old files without a replacement, and to publish `staged` files by target path."""
    actions: list[Action] = [Remove(path, "replaced by what the log holds") for path in old if path not in staged]
    # Tuples compare faster than paths.
    by_parts = sorted(staged.items(), key=lambda item: item[0].parts)
    return actions + [Publish(place, path, "rebuilt from the log") for place, path in by_parts]


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where actions are done: the store's root, and the quarantine folder of their change."""

    root: Path
    quarantine: Path
    fs: Filesystem

    def describe(self, number: int, action: Action) -> ManifestEntry:
        """Return the manifest's entry of the action, with everything needed to undo it."""
        entry: ManifestEntry = {
            "kind": action.verb,
            "path": stored_name(self.root, action.path),
            "reason": action.reason,
            "original": None,
        }
        self._require_own_places(entry)
        if self.fs.exists(action.path):
            entry["original"] = self._look(action.path)
            if entry["original"]["size"] <= HASH_SIZE_LIMIT:
                # A file with a bad sector can still be moved away by its name.
                with contextlib.suppress(StoreIOError):
                    entry["original"]["sha256"] = sha256_of(self.fs.read_file(action.path))
        if isinstance(action, Patch):
            descriptor = self.fs.open_read(action.path)
            entry["position"] = action.position
            entry["before"] = self.fs.read(descriptor, action.position, len(action.after)).hex()
            entry["after"] = action.after.hex()
        else:
            entry["kept_as"] = f"files/{number:06d}-{action.path.name}"
        if isinstance(action, Publish):
            entry["published"] = self._look(action.staged)
            entry["new_folders"] = sum(not self.fs.exists(folder) for folder in self._parents(action.path))
        return entry

    def perform(self, action: Action, entry: ManifestEntry) -> None:
        """Perform the action; a staged file must be durable before."""
        if isinstance(action, Patch):
            descriptor = self.fs.open_write(action.path)
            self.fs.write(descriptor, action.position, action.after)
            self.fs.fdatasync(descriptor)
            return
        if entry["original"] is not None:
            self._move(action.path, self.quarantine / entry["kept_as"], entry["original"]["mtime_ns"])
        if isinstance(action, Publish):
            self.fs.make_folder(action.path.parent)
            self._move(action.staged, action.path, entry["published"]["mtime_ns"])

    def is_overwritten(self, entry: ManifestEntry, *, is_cut_short: bool) -> bool:
        """Return whether another program has overwritten the bytes of the entry's patch."""
        if entry["kind"] != Patch.verb:
            return False
        found, before, after = (bytes.fromhex(text) for text in (self._patched(entry), entry["before"], entry["after"]))
        if found in (before, after) or not is_cut_short:
            return found not in (before, after)
        # After a power cut any byte of a patch may be the old one.
        return len(found) != len(after) or any(
            byte not in both for byte, *both in zip(found, before, after, strict=False)
        )

    def take_back(self, entry: ManifestEntry) -> int:
        """Restore the file or bytes that the entry's action changed; return the number of restored files."""
        self._require_own_places(entry)
        if entry["kind"] == Patch.verb:
            return self._take_back_patch(entry)
        path, kept = self.root / entry["path"], self.quarantine / entry["kept_as"]
        if entry["original"] is None:
            self._set_aside(path, entry)
            self.fs.unlink(path)
            self._remove_new_parents(path, entry)
            return 1
        if not self.fs.exists(kept):
            return 0
        self._set_aside(path, entry)
        self.fs.make_folder(path.parent)
        self._move(kept, path, entry["original"]["mtime_ns"])
        return 1

    def require_kept_sound(self, entry: ManifestEntry) -> None:
        """Raise DamagedFile if the kept file differs from the removed file."""
        original = entry["original"]
        if entry["kind"] == Patch.verb or original is None:
            return
        kept = self.quarantine / entry["kept_as"]
        require_no_link(self.fs, self.quarantine, kept)
        if not self.fs.exists(kept):
            return
        self.fs.require_file(kept)
        is_same = self.fs.stat(kept).st_size == original["size"] and not self.fs.is_link(kept)
        if is_same and "sha256" in original:
            is_same = sha256_of(self.fs.read_file(kept)) == original["sha256"]
        if not is_same:
            raise DamagedFile("the kept file differs from the one that was removed", file=kept, hint="nothing was done")

    def _require_own_places(self, entry: ManifestEntry) -> None:
        """Raise ForeignFile for a link to another place."""
        require_no_link(self.fs, self.root, self.root / entry["path"])
        if "kept_as" in entry:
            require_no_link(self.fs, self.quarantine, self.quarantine / entry["kept_as"])

    def _take_back_patch(self, entry: ManifestEntry) -> int:
        if self._patched(entry) == entry["before"]:
            return 0
        path = self.root / entry["path"]
        descriptor = self.fs.open_write(path)
        self.fs.write(descriptor, entry["position"], bytes.fromhex(entry["before"]))
        self.fs.fdatasync(descriptor)
        self.fs.utime(path, entry["original"]["mtime_ns"])
        return 1

    def _patched(self, entry: ManifestEntry) -> str:
        """Return in hex the bytes at a patch's position; for a missing file the bytes before the patch."""
        path = self.root / entry["path"]
        if not self.fs.exists(path):
            return str(entry["before"])
        descriptor = self.fs.open_read(path)
        return self.fs.read(descriptor, entry["position"], len(entry["after"]) // 2).hex()

    def _set_aside(self, path: Path, entry: ManifestEntry) -> None:
        """Move a file that another program wrote at `path` since the action into quarantine."""
        if not self.fs.exists(path):
            return
        now, original = self._look(path), entry["original"]
        known = [entry.get("published"), original and {name: original[name] for name in now}]
        if now not in known:
            aside = self.quarantine / LATER / Path(entry["kept_as"]).name
            while self.fs.exists(aside):
                aside = aside.with_name(aside.name + "+")
            self.fs.make_folder(aside.parent)
            self._move(path, aside, now["mtime_ns"])

    def _look(self, path: Path) -> dict[str, int]:
        status = self.fs.stat(path)
        return {"size": status.st_size, "mtime_ns": status.st_mtime_ns}

    def _parents(self, path: Path) -> list[Path]:
        """Return the folders between a file and the store's root, innermost first; none for a file elsewhere."""
        folders: list[Path] = []
        for folder in path.parents:
            if folder == self.root:
                return folders
            folders.append(folder)
        return []

    def _remove_new_parents(self, path: Path, entry: ManifestEntry) -> None:
        """Remove the folders that were made for the file, as long as they are empty."""
        for folder in self._parents(path)[: entry.get("new_folders")]:
            if not self.fs.remove_folder(folder):
                return

    def _move(self, source: Path, target: Path, mtime_ns: int) -> None:
        try:
            self.fs.rename(source, target)
        except StoreIOError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy(source, target, mtime_ns)
            self.fs.unlink(source)

    def _copy(self, source: Path, target: Path, mtime_ns: int) -> None:
        """Copy a file into a quarantine on another file system.

        The copy is whole and durable before it gets its name. The original is deleted after that. So a name in
        quarantine always has a complete file.
        """
        size = self.fs.stat(source).st_size
        part = target.with_name(target.name + PART_SUFFIX)
        self.fs.unlink(part)
        descriptor = self.fs.create_file(part, size, reserved=0)
        self.fs.copy_written(source, descriptor, size)
        self.fs.utime(part, mtime_ns)
        self.fs.fsync(descriptor)
        self.fs.rename(part, target)
        self.fs.fsync_folder(target.parent)
