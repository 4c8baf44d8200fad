"""rebuild in this process: the walk of the log, handed to the queue and index builders, which work beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from store.commitlog.scan import Blank, Damage, ScanRules
from store.commitlog.slices import LogSlice, walk_slice
from store.config import StoreConfig
from store.consumequeue.consume_queue_store import ConsumeQueueStore
from store.consumequeue.numbering import QueueTable
from store.disk.filesystem import Filesystem
from store.disk.store_reader import StoreReader
from store.dispatch.fan_out import FanOut, Handler
from store.formats.java import decode_utf8
from store.index.index_service import IndexService
from store.kernels.run import Run
from store.layout import StoreLayout
from store.rebuild.scope import RebuildReport, RebuildScope, staged_files

VERIFYING = ScanRules(check_crc=True)


def rebuild_locally(
    address: str,
    staging: Path,
    config: StoreConfig,
    scope: RebuildScope,
    *,
    clock: Callable[[], int],
    rules: ScanRules = VERIFYING,
    on_progress: Callable[[int], None] = lambda done_bytes: None,
) -> RebuildReport:
    """Builds the scope's files under `staging`; the store at `address` is only read.

    The log ends at the first thing that is no record by the `rules`.
    """
    files, fs = StoreReader(address), Filesystem()
    files.check_is_store()
    layout = StoreLayout(staging)
    queues = ConsumeQueueStore(layout, config, fs, writable=True)
    index = IndexService(layout, config, fs, writable=True, clock=clock)
    handlers: list[Handler] = [_ChosenQueues(queues, scope)] if scope.queues else []
    with FanOut([*handlers, index] if scope.index else handlers) as builders:
        log_end, why, records = _walk(files, rules, builders, on_progress)
    for queue in queues:
        queue.flush(0)
    index.flush()
    queues.close()
    index.close()
    return RebuildReport(log_end, why, records, len(staged_files(staging)))


def _walk(
    files: StoreReader, rules: ScanRules, builders: Handler, on_progress: Callable[[int], None]
) -> tuple[int, str, int]:
    """Hands every record up to the log's valid end to the builders; that end, why it is there, and their number."""
    log_end, records, done = 0, 0, 0
    for segment in files.segments():
        last = None
        part = LogSlice(segment.path, segment.number, segment.size, 0, segment.size)
        for last in walk_slice(files, part, rules, go_on=False):
            if isinstance(last, Run):
                builders.dispatch(last)
                records += last.count
                on_progress(done + last.end - segment.number)
        done += segment.size
        if last is None:
            continue
        if isinstance(last, Run):
            # A broker always leaves room for a blank, and does not read on where there is none.
            return last.end, "the segment ends without a blank", records
        log_end = last.file_start + last.position
        if not isinstance(last, Blank):
            return log_end, last.reason.describe() if isinstance(last, Damage) else "end", records
    return log_end, "the log ends", records


class _ChosenQueues:
    """Hands on the records of the wanted queues."""

    def __init__(self, queues: ConsumeQueueStore, scope: RebuildScope) -> None:
        self._queues = queues
        self._scope = scope

    def dispatch(self, run: Run) -> None:
        chosen = _chosen(run, self._scope)
        if chosen.count:
            self._queues.dispatch(chosen)


def _chosen(run: Run, scope: RebuildScope) -> Run:
    """The records of the wanted queues."""
    if not scope.is_narrow:
        return run
    table = QueueTable()
    array = np.ascontiguousarray(run.array[:, : run.count])
    slots = table.assign(run.kernels, run.kernels.view(run.buffer), array, run.count)
    wanted = [n for n, (topic, queue_id) in enumerate(table.queues) if scope.wants((decode_utf8(topic), queue_id))]
    rows = np.isin(slots, wanted)
    picked = np.ascontiguousarray(array[:, rows])
    return Run(run.file_start, run.path, run.buffer, picked, picked.shape[1], run.kernels)
