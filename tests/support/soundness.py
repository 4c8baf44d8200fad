"""check after every writer of a test: a store that was let go holds no damage that was not in it before.

Whoever writes takes the store's lock, so the lock is where the store is looked at: before it is taken, and after it is
given back. A writer whose file system is made to fail is not looked at, for its faults are the test's own.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from store.check.check import check
from store.check.findings import INDEX_ENTRY_NOWHERE, STALE_TAIL
from store.disk.filesystem import Filesystem
from store.disk.lock import StoreLock
from store.disk.store_reader import StoreReader
from store.errors import StoreError

# A cut zeroes the place where the log ends and keeps what is behind it, and full index files that point there.
LEFT_BY_CUTS = {INDEX_ENTRY_NOWHERE, STALE_TAIL}

Kinds = Counter[tuple[str, str | None, int | None]]


class Soundness:
    """Collects the damage that writers of this process leave behind."""

    def __init__(self) -> None:
        self.new_damage: list[str] = []
        self._before: dict[Path, Kinds] = {}

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Looks at every store whose lock is taken or given back from here on."""
        acquire, release = StoreLock.acquire, StoreLock.release

        def acquire_and_look(lock: StoreLock) -> None:
            if not lock.is_held:
                self._before[lock.path.parent] = kinds_of(lock.path.parent)
            acquire(lock)

        def release_and_look(lock: StoreLock) -> None:
            was_held = lock.is_held
            release(lock)
            root = lock.path.parent
            if was_held and type(lock._fs) is Filesystem and root in self._before:
                new = kinds_of(root) - self._before[root]
                self.new_damage += [f"{root}: {kind} of {topic} {queue_id}" for kind, topic, queue_id in new]

        monkeypatch.setattr(StoreLock, "acquire", acquire_and_look)
        monkeypatch.setattr(StoreLock, "release", release_and_look)


def kinds_of(root: Path) -> Kinds:
    """The kinds of findings of a store, by topic and queue; nothing of what is no store, or lies in several places."""
    if not (root / "commitlog").is_dir():
        return Counter()
    try:
        found = check(StoreReader(str(root)))
        return Counter((f.kind, f.topic, f.queue_id) for f in found if f.kind not in LEFT_BY_CUTS)
    except StoreError:
        return Counter()
