"""backup prune: delete backups, and files that no kept one needs. Also compares two backups.

A backup is kept when one of the rules keeps it: the newest N, and those of the last D days; the newest one always, and
the newest one whose files are all there with their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from store.formats.backup_manifest import BackedFile, Manifest
from store.verbs.backup.target import BackupTarget

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """The backups to keep and to delete, by id, and the stored files to delete, with their sizes.

    incomplete  the kept backups that lack files, or have shorter ones
    """

    kept: tuple[str, ...]
    backups: tuple[str, ...]
    files: dict[str, int]
    incomplete: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.backups or self.files)

    @property
    def freed_bytes(self) -> int:
        return sum(self.files.values())

    def apply(self, folder: BackupTarget) -> None:
        """Delete the backups and files; the caller holds the folder's lock."""
        folder.remove(self.backups, self.files)


def plan_prune(folder: BackupTarget, now_ms: int, *, keep_last: int | None, keep_days: float | None) -> PrunePlan:
    """Choose the backups to delete; with neither rule only files that no backup needs.

    Raises DamagedFile for a manifest that can't be read: the files that its backup needs are not known.
    """
    manifests = folder.manifests()
    stored = folder.stored_files()
    newest_first = list(reversed(manifests))
    whole = [one for one in newest_first if all(stored.get(file.stored) == file.stored_size for file in one.files)]
    kept = [
        one
        for number, one in enumerate(newest_first)
        if one in whole[:1] or _keeps(one, number, now_ms, keep_last, keep_days)
    ]
    needed = {file.stored for one in kept for file in one.files}
    needed |= {file.stored for file in folder.noted()}
    files = {path: size for path, size in stored.items() if path not in needed}
    ids = tuple(one.id for one in reversed(kept))
    incomplete = tuple(one.id for one in reversed(kept) if one not in whole)
    return PrunePlan(ids, tuple(one.id for one in manifests if one.id not in ids), files, incomplete)


def _keeps(manifest: Manifest, number: int, now_ms: int, keep_last: int | None, keep_days: float | None) -> bool:
    if number == 0 or (keep_last is None and keep_days is None):
        return True
    is_young = keep_days is not None and manifest.began_ms >= now_ms - keep_days * DAY_MS
    return is_young or (keep_last is not None and number < keep_last)


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A file that one of two backups lacks, or has with other bytes; a missing file's size is None."""

    path: str
    difference: str
    size_before: int | None
    size_after: int | None


def differences(before: Manifest, after: Manifest) -> list[FileDifference]:
    """Compare two backups, file by file."""
    old, new = ({_name_of(one): one for one in side.files} for side in (before, after))
    rows = []
    for path in sorted(old.keys() | new.keys()):
        mine, other = old.get(path), new.get(path)
        if mine is not None and other is not None and mine.sha256 == other.sha256:
            continue
        word = "added" if mine is None else "missing" if other is None else "differs"
        rows.append(FileDifference(path, word, mine.size if mine else None, other.size if other else None))
    return rows


def _name_of(file: BackedFile) -> str:
    return f"{file.path}+{file.position}" if file.position else file.path


def added_bytes(manifests: Sequence[Manifest]) -> dict[str, int]:
    """Count the stored bytes of each backup that no earlier backup has, by its id."""
    seen: set[str] = set()
    found = {}
    for manifest in manifests:
        fresh = {one.stored: one.stored_size for one in manifest.files if one.stored not in seen}
        found[manifest.id] = sum(fresh.values())
        seen |= fresh.keys()
    return found
