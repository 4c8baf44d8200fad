"""Publish a rebuild: rename staged files into the store, and move the old ones to quarantine."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from store.change.actions import Action, replace_files
from store.change.change import AnyChange, Change, PlanReport
from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.kernels.native import clock_ms
from store.layout import StoreLayout, parse_index_file_name, parse_queue_id, parse_segment_name
from store.opened.checkpoint import StoreCheckpoint
from store.structures.index.index_service import IndexService
from store.structures.registry import names_of, rooms_with
from store.verbs.rebuild.scope import RebuildScope


@dataclass
class RebuildPlan(PlanReport):
    """The scan that built queues and index; no queue shows `lost_messages` afterwards."""

    lost_messages: int = 0
    log_end: int = 0
    stopped_by: str = ""
    message_count: int = 0


def plan_publish(root: Path, staging: Path, scope: RebuildScope, fs: Filesystem) -> Change[RebuildPlan]:
    """Return the Change that puts the staged files in place of the scope's old ones."""
    return Change("rebuild", root, fs, publish_actions(root, staging, scope, fs), RebuildPlan(), staging=staging)


def lower_checkpoint(
    change: AnyChange, layout: StoreLayout, config: StoreConfig, scope: RebuildScope, *, is_log_empty: bool
) -> None:
    """Lower the checkpoint to the full files of a new index; for an empty log set its times to 0."""
    assert change.staging is not None
    checkpoint = StoreCheckpoint.load(layout.checkpoint, change.fs)
    before = checkpoint.page
    if scope.index:
        index = IndexService(StoreLayout(change.staging), config, change.fs, writable=False, clock=clock_ms)
        index.load()
        checkpoint.index_ms = min(checkpoint.index_ms, index.flushed_until_ms)
    if is_log_empty:
        checkpoint.physic_ms = checkpoint.logics_ms = checkpoint.index_ms = 0
    if checkpoint.page != before:
        change.publish_bytes(layout.checkpoint, checkpoint.page.encode(), "says how far the store is safe")


def publish_actions(root: Path, staging: Path, scope: RebuildScope, fs: Filesystem) -> list[Action]:
    """Return the actions that publish the staged files, and remove old files without a replacement."""
    names = _staged_names(staging, fs)
    layout, new = StoreLayout(root), StoreLayout(staging)
    old = _old_files(layout, scope, fs, frozenset(names))
    for room in rooms_with(names_of(new, fs), "build", "replaced_files"):
        old += room.replaced_files(layout, new, fs)
    return replace_files(old, {root / name: staging / name for name in names})


def staged_files(staging: Path, fs: Filesystem) -> list[Path]:
    """Return the files of a staging folder."""
    return [staging / name for name in _staged_names(staging, fs)]


def _staged_names(staging: Path, fs: Filesystem) -> list[str]:
    entries = fs.list_below(str(staging.parent), staging.name)
    return [entry.path.removeprefix(f"{staging.name}/") for entry in entries if not entry.is_folder]


def _old_files(layout: StoreLayout, scope: RebuildScope, fs: Filesystem, staged: Container[str]) -> list[Path]:
    """Return the store's files of the scope, without queue files that a staged file replaces.

    staged  names of the staged files

    Files that no broker made stay: the log cannot replace them.
    """
    found: list[Path] = []
    for parent in layout.queue_parents if scope.queues else ():
        for entry in fs.list_below(str(parent.parent), parent.name):
            topic, queue_id, name = _queue_file(entry.path)
            is_old = queue_id is not None and scope.wants((topic, queue_id)) and parse_segment_name(name) is not None
            if is_old and entry.path not in staged and not (entry.is_folder or entry.kind):
                found.append(parent.parent / entry.path)
    if scope.index:
        files = [entry.path for entry in fs.list_folder(layout.index) if entry.is_file]
        found += [path for path in files if parse_index_file_name(path.name) is not None]
    return found


def _queue_file(path: str) -> tuple[str, int | None, str]:
    """Return topic, queue id and name of a file in a queue's folder; no id elsewhere."""
    parts = path.split("/")
    return (parts[1], parse_queue_id(parts[2]), parts[3]) if len(parts) == 4 else ("", None, "")
