"""rebuild: consume queues and index from the log, into a staging folder, and from there into the store.

    1. build    either engine fills the staging folder, laid out like a store's root
                local: the walk of the log handed to the queue and index builders (here)
                Spark: store.pipeline.rebuild
    2. publish  a Change: every staged file takes its place by rename, the old files go to quarantine

Nothing of the store is touched before step 2, which is the same for both engines. The log counts up to its valid end:
the first bytes that are no record, CRCs included, as in a recovery.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from store.change.actions import Action, Publish, Remove
from store.change.change import Change
from store.commitlog.scan import Blank, Damage, ScanRules
from store.config import StoreConfig
from store.consumequeue.consume_queue_store import ConsumeQueueStore
from store.disk.filesystem import Filesystem
from store.files import StoreFiles
from store.formats.java import decode_utf8
from store.index.index_service import IndexService
from store.kernels.queue_table import QueueTable
from store.kernels.run import Run
from store.layout import StoreLayout
from store.parts import Part, walk_part

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
class Rebuilt:
    """What a rebuild made. `log_end` is the valid end; `stopped_by` says why the log ends there."""

    log_end: int
    stopped_by: str
    record_count: int
    file_count: int


def rebuild_locally(
    address: str,
    staging: Path,
    config: StoreConfig,
    scope: RebuildScope,
    *,
    clock: Callable[[], int],
    on_progress: Callable[[int], None] = lambda done_bytes: None,
) -> Rebuilt:
    """Builds the scope's files under `staging`; the store at `address` is only read."""
    files, fs = StoreFiles(address), Filesystem()
    files.check_is_store()
    layout = StoreLayout(staging)
    queues = ConsumeQueueStore(layout, config, fs, writable=True)
    index = IndexService(layout, config, fs, writable=True, clock=clock)
    log_end, why, records, done = 0, "the log ends", 0, 0
    for segment in files.segments():
        last = None
        part = Part(segment.path, segment.number, segment.size, 0, segment.size)
        for last in walk_part(files, part, ScanRules(check_crc=True), go_on=False):
            if isinstance(last, Run):
                records += last.count
                if scope.queues and (chosen := _chosen(last, scope)).count:
                    queues.dispatch(chosen)
                if scope.index:
                    index.dispatch(last)
                on_progress(done + last.end - segment.number)
        done += segment.size
        if last is None or isinstance(last, Run):
            continue
        log_end = last.file_start + last.position
        if not isinstance(last, Blank):
            why = last.reason.describe() if isinstance(last, Damage) else "end"
            break
    for queue in queues:
        queue.flush(0)
    index.flush()
    queues.close()
    index.close()
    return Rebuilt(log_end, why, records, len(_staged(staging)))


def _chosen(run: Run, scope: RebuildScope) -> Run:
    """The records of the wanted queues."""
    if not scope.is_narrow:
        return run
    table = QueueTable()
    array = np.ascontiguousarray(run.array[:, : run.count])
    slots = table.assign(run.kernels, run.kernels.view(run.buffer), array, run.count)
    wanted = [
        n for n, (topic, queue_id) in enumerate(table.queues) if scope.wants((decode_utf8(topic), queue_id))
    ]
    rows = np.isin(slots, wanted)
    picked = np.ascontiguousarray(array[:, rows])
    return Run(run.file_start, run.path, run.buffer, picked, picked.shape[1], run.kernels)


def plan_publish(root: Path, staging: Path, scope: RebuildScope, fs: Filesystem) -> Change:
    """The Change that puts the staged files in place of the scope's old ones."""
    layout = StoreLayout(root)
    staged = {root / path.relative_to(staging): path for path in _staged(staging)}
    old = [path for path in _old_files(layout, scope) if path not in staged]
    actions: list[Action] = [Remove(path, "replaced by what the log holds") for path in old]
    actions += [Publish(place, path, "rebuilt from the log") for place, path in sorted(staged.items())]
    return Change("rebuild", root, fs, actions, staging=staging)


def drop_leftovers(folder: Path) -> None:
    """Removes what killed rebuilds have staged. Whoever calls this holds the store's lock, so none is running."""
    for path in folder.glob("rebuild-*"):
        shutil.rmtree(path, ignore_errors=True)


def _staged(staging: Path) -> list[Path]:
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
