"""Keep the end of each queue whose messages have all expired: the log does not hold it.

The last file with entries is taken over, up to the log's start. A broker leaves such a queue that file, too, and takes
the queue offset of the next message from it. Without it the queue begins at 0 again, below its consumers' offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoredFile, StoreReader
from store.formats.derived import is_pre_blank, units_of
from store.formats.queue_unit import BATCH_UNIT_SIZE, UNIT_SIZE
from store.verbs.rebuild.scope import Queue, RebuildScope


def keep_expired_ends(files: StoreReader, staging: Path, scope: RebuildScope, fs: Filesystem) -> list[str]:
    """Stage the last file of each of the scope's queues that has entries of expired messages only.

    Queues that are staged are left alone. Returns a sentence for each queue whose end can't be read.
    """
    segments, faults = files.segments(), list[str]()
    if not scope.queues or not segments:
        return faults
    for queue, of_queue in _queues(files):
        if not of_queue or not scope.wants(queue) or fs.exists((staging / of_queue[0].path).parent):
            continue
        try:
            _stage_last(files, of_queue, staging, segments[0].number, fs)
        except StoreError as error:
            faults.append(f"{queue[0]}, queue {queue[1]}: its next message gets another queue offset: {error}")
    return faults


def _queues(files: StoreReader) -> Iterator[tuple[Queue, Sequence[StoredFile]]]:
    for queue in files.queues():
        yield queue, files.queue_files(*queue)
    if files.has_batch_queues():
        from store.structures.batchqueue.files import batch_queue_files

        yield from batch_queue_files(files).items()


def _stage_last(
    files: StoreReader, of_queue: Sequence[StoredFile], staging: Path, log_start: int, fs: Filesystem
) -> None:
    for file in reversed(of_queue):
        data = files.read_written(file.path, file.size)
        if size := _expired_size(data, _is_batch(file), log_start):
            path = staging / file.path
            fs.make_folder(path.parent)
            target = fs.create_file(path, file.size)
            fs.write(target, 0, data[:size])
            fs.fsync(target)
            return


def _is_batch(file: StoredFile) -> bool:
    return file.path.startswith("batch")


def _expired_size(data: memoryview, is_batch: bool, log_start: int) -> int:
    """Return the size of the leading entries of expired messages, 0 without one."""
    if is_batch:
        from store.structures.batchqueue.units import batch_units_of, written_count

        units = batch_units_of(data)
        units = units[: written_count(units)]
        filler = np.zeros(len(units), bool)
    else:
        units = units_of(data)
        filler = is_pre_blank(units)
    starts, ends = units["log_offset"].astype(np.int64), units["log_offset"] + units["size"].astype(np.int64)
    is_expired = (starts >= 0) & (units["size"] > 0) & (ends <= log_start) & ~filler
    kept = int(np.argmin(np.append(is_expired | filler, False)))
    return kept * (BATCH_UNIT_SIZE if is_batch else UNIT_SIZE) if is_expired[:kept].any() else 0
