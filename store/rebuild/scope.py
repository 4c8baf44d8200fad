"""rebuild: consume queues and index from the log, into a staging folder, and from there into the store.

    1. build    either engine fills the staging folder, laid out like a store's root
                local: store.rebuild.local
                Spark: store.spark.rebuild
    2. publish  a Change: every staged file takes its place by rename, the old files go to quarantine

Nothing of the store is touched before step 2, which is the same for both engines. The log counts up to its valid end:
the first bytes that are no record, CRCs included, as in a recovery.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from store.change.actions import Action, Publish, Remove
from store.change.change import Change
from store.disk.filesystem import Filesystem
from store.layout import StoreLayout

Queue = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RebuildScope:
    """What is rebuilt: the queues (all, of a topic, or one), the index, or both."""

    queues: bool = True
    index: bool = True
    topic: str | None = None
    queue_id: int | None = None

    @property
    def is_narrow(self) -> bool:
        return self.topic is not None or self.queue_id is not None

    def wants(self, queue: Queue) -> bool:
        return self.topic in (None, queue[0]) and self.queue_id in (None, queue[1])


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What a rebuild made. `log_end` is the valid end; `stopped_by` says why the log ends there."""

    log_end: int
    stopped_by: str
    record_count: int
    file_count: int


def plan_publish(root: Path, staging: Path, scope: RebuildScope, fs: Filesystem) -> Change:
    """The Change that puts the staged files in place of the scope's old ones."""
    return Change("rebuild", root, fs, publish_actions(root, staging, scope, fs), staging=staging)


def publish_actions(root: Path, staging: Path, scope: RebuildScope, fs: Filesystem) -> list[Action]:
    """The actions of that change: old files that nothing stands for any more go, staged ones take their places."""
    staged = {root / path.relative_to(staging): path for path in staged_files(staging)}
    old = [path for path in _old_files(StoreLayout(root), scope) if path not in staged]
    actions: list[Action] = [Remove(path, "replaced by what the log holds") for path in old]
    return actions + [Publish(place, path, "rebuilt from the log") for place, path in sorted(staged.items())]


def drop_leftovers(folder: Path) -> None:
    """Removes what killed commands have staged. Whoever calls this holds the store's lock, so none is running."""
    for path in (*folder.glob("rebuild-*"), *folder.glob("plan-*")):
        shutil.rmtree(path, ignore_errors=True)


def staged_files(staging: Path) -> list[Path]:
    return sorted(path for path in staging.rglob("*") if path.is_file())


def _old_files(layout: StoreLayout, scope: RebuildScope) -> list[Path]:
    """The files in the store that the rebuilt ones stand for."""
    found: list[Path] = []
    if scope.queues:
        for path in sorted(layout.consumequeue.glob("*/*/*")):
            topic, queue_id = path.parts[-3], path.parts[-2]
            if queue_id.isdigit() and path.is_file() and scope.wants((topic, int(queue_id))):
                found.append(path)
    if scope.index:
        found += sorted(path for path in layout.index.glob("*") if path.is_file())
    return found
