"""The ends of queues; the log lacks those of queues whose messages have all expired.

    [topic, queue id, first queue offset, next one, log offset of the newest record, the end of it]

In a restored store such a queue has one file: pre-blank units, and a unit of the newest message. A broker keeps such a
file, and reads the queue offset of the next message from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.formats.derived import UNIT_DTYPE
from store.formats.queue_unit import PRE_BLANK_SIZE, UNIT_SIZE
from store.layout import StoreLayout, is_topic_folder_name, segment_name


class BackedEnd(NamedTuple):
    """One queue's extent when it was backed up."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    newest: int
    end: int


def encode_ends(ends: Iterable[BackedEnd]) -> bytes:
    """Encode the file, with a line for each queue."""
    rows = ",\n".join(json.dumps(one, ensure_ascii=False) for one in sorted(ends))
    return f"[{rows}]\n".encode("utf-8", "surrogatepass")


def decode_ends(data: bytes) -> list[BackedEnd]:
    """Decode the file."""
    return [BackedEnd(*row) for row in json.loads(data.decode("utf-8", "surrogatepass"))]


def write_expired(
    ends: Iterable[BackedEnd], layout: StoreLayout, config: StoreConfig, log: tuple[int, int], fs: Filesystem
) -> Mapping[tuple[str, int], int]:
    """Write a file for each queue without a message in the log; return the next queue offset of each.

    log  its start and end
    """
    log_start, log_end = log
    written: dict[tuple[str, int], int] = {}
    for end in ends:
        # If all messages of a queue are past the log's end, the first of them is its next.
        next_offset = end.max_offset if end.newest < log_end else end.min_offset
        folder = layout.queue_folder(end.topic, end.queue_id)
        is_in_log = log_start <= end.newest < log_end
        if next_offset > 0 and not is_in_log and is_topic_folder_name(end.topic) and not fs.exists(folder):
            _write_file(end, next_offset, layout, config, log_end, fs)
            written[end.topic, end.queue_id] = next_offset
    return written


def _write_file(
    end: BackedEnd, next_offset: int, layout: StoreLayout, config: StoreConfig, log_end: int, fs: Filesystem
) -> None:
    size, folder = config.mapped_file_size_consume_queue, layout.queue_folder(end.topic, end.queue_id)
    per_file = size // UNIT_SIZE
    first = (next_offset - 1) // per_file * per_file
    units = np.zeros(next_offset - first, UNIT_DTYPE)
    units["size"][:-1] = PRE_BLANK_SIZE
    is_known = 0 <= end.newest < log_end
    units[-1] = (end.newest, end.end - end.newest, 0) if is_known else (0, 1, 0)
    for made in fs.make_folder(folder):
        fs.fsync_folder(made.parent)
    file = fs.create_file(folder / segment_name(first * UNIT_SIZE), size)
    fs.write(file, 0, units.tobytes())
    fs.fsync(file)
    fs.fsync_folder(folder)
