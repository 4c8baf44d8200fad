"""Publishing a rebuild: staged files take their places in the store by rename, the old files go to quarantine."""

from __future__ import annotations

import shutil
from pathlib import Path

from store.change.actions import Action, Publish, Remove
from store.change.change import Change
from store.disk.filesystem import Filesystem
from store.layout import StoreLayout
from store.rebuild.scope import RebuildScope


def plan_publish(root: Path, staging: Path, scope: RebuildScope, fs: Filesystem) -> Change:
    """The Change that puts the staged files in place of the scope's old ones."""
    return Change("rebuild", root, fs, publish_actions(root, staging, scope, fs), staging=staging)


def publish_actions(root: Path, staging: Path, scope: RebuildScope, fs: Filesystem) -> list[Action]:
    """Removes the scope's files without a replacement; publishes the others."""
    staged = {root / path.relative_to(staging): path for path in staged_files(staging)}
    old = [path for path in _old_files(StoreLayout(root), scope) if path not in staged]
    actions: list[Action] = [Remove(path, "replaced by what the log holds") for path in old]
    return actions + [Publish(place, path, "rebuilt from the log") for place, path in sorted(staged.items())]


def drop_leftovers(folder: Path) -> None:
    """Removes what killed commands have staged. The caller holds the store's lock, so no command is running."""
    for path in (*folder.glob("rebuild-*"), *folder.glob("plan-*")):
        shutil.rmtree(path, ignore_errors=True)


def staged_files(staging: Path) -> list[Path]:
    """The files of a staging folder, sorted."""
    return sorted(path for path in staging.rglob("*") if path.is_file())


def _old_files(layout: StoreLayout, scope: RebuildScope) -> list[Path]:
    """The store's files that the rebuilt ones replace."""
    found: list[Path] = []
    if scope.queues:
        for path in sorted(layout.consumequeue.glob("*/*/*")):
            topic, queue_id = path.parts[-3], path.parts[-2]
            if queue_id.isdigit() and path.is_file() and scope.wants((topic, int(queue_id))):
                found.append(path)
    if scope.index:
        found += sorted(path for path in layout.index.glob("*") if path.is_file())
    return found
