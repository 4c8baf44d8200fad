"""Check a store after every writer of a test.

    sound before     a writer leaves no damage: but for what a cut keeps, which names its command
    damaged before   new damage names the command that mends it, as an old one may turn into another by being cut
    log alone        a copy of a log has no queues and no index

A store with an abort marker counts as damaged. Damage that was there before an earlier writer of the same test is not
new: an undo brings it back. The lock is where the store is looked at: before it is taken, and after it is given back. A
writer whose file system is made to fail is not looked at, for its faults are the test's own.

Before a writer, a store that has not changed since the one before has the damage found then. After a writer it is
always checked: what is written through a mapping in a tmpfs leaves the time as it was.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from rmqctl.advice import mended_by
from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.lock import StoreLock
from store.files.store_reader import StoreReader
from store.structures.findings import INDEX_ENTRY_NOWHERE, LOST_INDEX, MISSING_UNIT, STALE_TAIL, UNKNOWN_NAME
from store.verbs.check.check import check_files
from store.verbs.check.options import CheckOptions

# A cut zeroes the place where the log ends and keeps what is behind it, and full index files that point there.
LEFT_BY_CUTS = {INDEX_ENTRY_NOWHERE, STALE_TAIL}
NO_DAMAGE = {UNKNOWN_NAME}
NOT_DERIVED = {MISSING_UNIT, LOST_INDEX}

# The stores of tests are small: starting threads takes longer than the walk.
ONE_THREAD = CheckOptions(threads=1)

Kinds = Counter[tuple[str, str | None, int | None]]
Looks = tuple[tuple[str, int, int, int], ...]
"""Path, inode, size and time of change of every name in a store."""


class Soundness:
    """Collects the damage that writers of this process leave behind."""

    def __init__(self) -> None:
        self.new_damage: list[str] = []
        self._before: dict[Path, Kinds] = {}
        self._damaged: set[Path] = set()
        self._after_writer: dict[Path, tuple[Looks, Kinds]] = {}

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Check every store when its lock is taken or released, from here on."""
        acquire, release = StoreLock.acquire, StoreLock.release

        def acquire_and_look(lock: StoreLock) -> None:
            if lock._descriptor is None:
                self._look(lock.path.parent)
            acquire(lock)

        def release_and_look(lock: StoreLock) -> None:
            was_held = lock._descriptor is not None
            release(lock)
            root = lock.path.parent
            if was_held and type(lock._fs) is Filesystem and root in self._before:
                found = kinds_of(root)
                self._after_writer[root] = _looks(root), found
                new = {place for place in found - self._before[root] if not self._may_stay(root, place[0])}
                self.new_damage += [
                    f"{root}: {kind} of {topic} {queue_id}" for kind, topic, queue_id in sorted(new, key=str)
                ]

        monkeypatch.setattr(StoreLock, "acquire", acquire_and_look)
        monkeypatch.setattr(StoreLock, "release", release_and_look)

    def _look(self, root: Path) -> None:
        """Add the store's findings to the earlier ones."""
        looks, kinds = self._after_writer.get(root, ((), Counter()))
        if looks != _looks(root):
            kinds = kinds_of(root)
        self._before[root] = self._before.get(root, Counter()) | kinds
        if _holds_files(root) and (kinds or (root / "abort").exists()):
            self._damaged.add(root)

    def _may_stay(self, root: Path, kind: str) -> bool:
        if kind in NOT_DERIVED and not (root / "consumequeue").exists():
            return True
        return kind in LEFT_BY_CUTS | NO_DAMAGE or (root in self._damaged and mended_by(kind, None) is not None)


def _holds_files(root: Path) -> bool:
    """Return whether a writer was here before: a new store has no checkpoint yet, which is no damage."""
    folders = ("commitlog", "consumequeue", "index")
    return any(path.is_file() for folder in folders for path in (root / folder).rglob("*"))


def _looks(root: Path) -> Looks:
    found, folders = [], [str(root)] if root.is_dir() else []
    for folder in folders:
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            status = entry.stat(follow_symlinks=False)
            found.append((entry.path, status.st_ino, status.st_size, status.st_ctime_ns))
    return tuple(sorted(found))


def kinds_of(root: Path) -> Kinds:
    """Count the findings of a store by kind, topic and queue; none for another folder, or a store in several."""
    if not (root / "commitlog").is_dir():
        return Counter()
    try:
        found = check_files(StoreReader(str(root)), ONE_THREAD)
        return Counter((f.kind, f.topic, f.queue_id) for f in found)
    except StoreError:
        return Counter()
