"""The files of a queue whose entries all point before the log's start.

Source: MappedFileQueue.deleteExpiredFileByOffset (4.9.8), and its variants for other units (5.3.3).
"""

from __future__ import annotations

import sys

from store.files.mapped_file import MappedFile
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.verbs.clean.rules import count_expired


def expired_queue_files(queue: ConsumeQueue, log_start: int) -> list[MappedFile]:
    """Return the queue's expired files, from the oldest, never the last."""
    files = queue.files.files
    return files[: count_expired([_last_log_offset(queue, file) for file in files], log_start)]


def delete_expired(queue: ConsumeQueue, log_start: int) -> int:
    """Delete a queue's expired files, move the queue's start, and return the number of files."""
    expired = expired_queue_files(queue, log_start)
    queue.files.delete_files(expired)
    queue.correct_min_offset(log_start)
    return len(expired)


def _last_log_offset(queue: ConsumeQueue, file: MappedFile) -> int:
    """Return the log offset in a file's last unit; for a file that is not full, a value that keeps it."""
    if file.readable_position < file.size:
        return sys.maxsize
    return queue.last_log_offset(file)
