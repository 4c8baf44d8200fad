"""Keep the end of each queue whose messages have all expired: the log does not hold it.

files      the queue's last file with expired entries is copied, up to the log's start. A broker keeps this file
           as well, and reads the next queue offset from it
consumers  a queue whose files are lost goes on at the largest offset of a consumer. In a broker it begins at 0,
           and its consumers miss all messages below their offsets
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from store.config import StoreConfig
from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoredFile, StoreReader
from store.formats.derived import expired_count, is_pre_blank, units_of
from store.formats.queue_unit import UNIT_SIZE
from store.layout import StoreLayout
from store.opened.detect import find_other_queues
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.consumequeue.lost_ends import continue_lost
from store.structures.registry import Names, rooms_with
from store.verbs.rebuild.scope import Queue, RebuildScope

ListFiles = Callable[[], Sequence[StoredFile]]
ExpiredSize = Callable[[memoryview, int], int]


def keep_expired_ends(files: StoreReader, staging: Path, scope: RebuildScope, fs: Filesystem) -> list[str]:
    """Stage the last file with expired entries of each queue in the scope, unless the queue is staged.

    Return a sentence for each queue whose end can't be read.
    """
    segments, faults = files.segments(), list[str]()
    if not scope.queues or not segments:
        return faults
    names = cache(lambda folder: frozenset(fs.list_folders(folder)))
    for queue, folder, list_files, size_of in _queues(files):
        is_staged = posixpath.basename(folder) in names(staging / posixpath.dirname(folder))
        of_queue = list_files() if scope.wants(queue) and not is_staged else ()
        if not of_queue:
            continue
        try:
            _stage_last(files, of_queue, staging, segments[0].number, size_of, fs)
        except StoreError as error:
            faults.append(f"{queue[0]}, queue {queue[1]}: its next message gets another queue offset: {error}")
    return faults


def keep_lost_ends(
    files: StoreReader, staging: Path, config: StoreConfig, scope: RebuildScope, fs: Filesystem
) -> list[str]:
    """Stage the queues in the scope that are not staged, and go on at a consumer's offset.

    Return a sentence for each.
    """
    segments, layout = files.segments(), StoreLayout(Path(files.address))
    if not (scope.queues and segments and segments[0].number and files.is_local) or config.queues_in_database:
        return []
    staged = set(StoreReader(str(staging), fs).queues())
    others = find_other_queues(layout, config, fs)
    queues = ConsumeQueueStore(StoreLayout(staging), config, fs, writable=True, others=others)
    try:
        return continue_lost(
            queues, layout.config, segments[0].number, fs, lambda queue: queue not in staged and scope.wants(queue)
        )
    finally:
        queues.close()


def _queues(files: StoreReader) -> Iterator[tuple[Queue, str, ListFiles, ExpiredSize]]:
    """Yield each queue, its folder and files, and a function that counts a file's expired entries."""
    for topic, queue_id in files.queues():
        folder = f"consumequeue/{topic}/{queue_id}"
        yield (topic, queue_id), folder, partial(files.queue_files, topic, queue_id), _expired_size
    for room in rooms_with(Names.of_files(files, reads=False), "queues", "expired_size"):
        for queue, of_queue in room.files_of(files).items():
            folder = posixpath.dirname(of_queue[0].path) if of_queue else ""
            yield queue, folder, partial(list, of_queue), room.expired_size


def _stage_last(
    files: StoreReader,
    of_queue: Sequence[StoredFile],
    staging: Path,
    log_start: int,
    size_of: ExpiredSize,
    fs: Filesystem,
) -> None:
    for file in reversed(of_queue):
        data = files.read_written(file.path, file.size)
        if size := size_of(data, log_start):
            path = staging / file.path
            fs.make_folder(path.parent)
            fs.write(fs.create_file(path, file.size), 0, data[:size])
            return


def _expired_size(data: memoryview, log_start: int) -> int:
    units = units_of(data)
    return expired_count(units, is_pre_blank(units), log_start) * UNIT_SIZE
