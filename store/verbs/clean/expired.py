"""The files of a queue that only refer to log before its start: queue files, and extension files.

Source: MappedFileQueue.deleteExpiredFileByOffset, ConsumeQueueExt.truncateByMinAddress (4.9.8),
MappedFileQueue.deleteExpiredFileByOffsetForTimerLog and BatchConsumeQueue.deleteExpiredFile (5.3.3).
"""

from __future__ import annotations

import numpy as np

from store.files.mapped_file import MappedFile
from store.formats.queue_unit import decode_ext_address, is_ext_address
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.unit_array import unit_array
from store.verbs.clean.rules import count_expired

MOST_LOG_OFFSET = (1 << 63) - 1


def expired_queue_files(queue: ConsumeQueue, log_start: int) -> list[MappedFile]:
    """The queue's files that end before the log begins, from the oldest, never the last."""
    files = queue.files.files
    return files[: count_expired([_last_log_offset(queue, file) for file in files], log_start)]


def expired_extension_files(queue: ConsumeQueue, expired_count: int, log_start: int) -> list[MappedFile]:
    """The extension files before the address in the queue's first unit that is kept.

    expired_count  of the queue's files that are not kept
    """
    kept = queue.files.files[expired_count:]
    if queue.ext is None or not kept:
        return []
    units = unit_array(kept[0])
    live = np.flatnonzero(units["log_offset"] >= log_start)
    tags_code = int(units["tags_code"][live[0]]) if len(live) else 0
    if not is_ext_address(tags_code):
        return []
    address = decode_ext_address(tags_code)
    return [file for file in queue.ext.files.files if file.file_start + file.size < address]


def _last_log_offset(queue: ConsumeQueue, file: MappedFile) -> int:
    """The log offset in a file's last unit; a file that is not full is kept."""
    if file.readable_position < file.size:
        return MOST_LOG_OFFSET
    return queue.last_log_offset(file)
