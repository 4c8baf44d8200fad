"""Stores of very many queues, written without a put for each: the log's records and the queues' units as bytes.

many_queues(root, 10_000, 60_000)      60,000 messages dealt out to 10,000 queues, log and queues agree
"""

from __future__ import annotations

import itertools
from pathlib import Path

from store.formats.checkpoint_page import CheckpointPage
from store.formats.host import Host
from store.formats.message import Message, encode_record
from store.formats.queue_unit import QueueUnit
from store.layout import segment_name

START_MS = 1_700_000_000_000
QUEUES_PER_TOPIC = 100
BLANK_MAGIC = 0xCBD43194
HOST = Host.parse("127.0.0.1:10911")


def many_queues(
    root: Path, queue_count: int, message_count: int, *, segment_size: int = 64 << 20, queue_file_size: int = 400
) -> Path:
    """Write commitlog/ and consumequeue/ of a store without index, with messages in all queues in turn."""
    units: list[list[bytes]] = [[] for _ in range(queue_count)]
    segments = [bytearray()]
    for number, queue in zip(range(message_count), itertools.cycle(range(queue_count)), strict=False):
        record = _record(number, queue, len(units[queue]), _end(segments, segment_size))
        if len(segments[-1]) + len(record) + 8 > segment_size:
            room = segment_size - len(segments[-1])
            segments[-1] += (room.to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big")).ljust(room, b"\0")
            segments.append(bytearray())
            record = _record(number, queue, len(units[queue]), _end(segments, segment_size))
        units[queue].append(QueueUnit(_end(segments, segment_size), len(record), 0).encode())
        segments[-1] += record
    _write_files(root / "commitlog", [bytes(segment) for segment in segments], segment_size)
    for queue, of_queue in enumerate(units):
        topic, queue_id = queue_name(queue)
        data = b"".join(of_queue)
        pieces = [data[at : at + queue_file_size] for at in range(0, len(data), queue_file_size)]
        _write_files(root / "consumequeue" / topic / str(queue_id), pieces, queue_file_size)
    page = CheckpointPage(START_MS + message_count - 1, START_MS + message_count - 1)
    (root / "checkpoint").write_bytes(page.encode())
    return root


def queue_name(queue: int) -> tuple[str, int]:
    """Return topic and queue id of the queue with this number."""
    return f"T{queue // QUEUES_PER_TOPIC}", queue % QUEUES_PER_TOPIC


def _record(number: int, queue: int, queue_offset: int, log_offset: int) -> bytes:
    topic, queue_id = queue_name(queue)
    return encode_record(
        Message(topic, b"%d" % number, queue_id, born_host=HOST, store_host=HOST),
        topic=topic.encode(),
        sys_flag=0,
        queue_offset=queue_offset,
        log_offset=log_offset,
        store_timestamp_ms=START_MS + number,
    )


def _end(segments: list[bytearray], segment_size: int) -> int:
    return (len(segments) - 1) * segment_size + len(segments[-1])


def _write_files(folder: Path, pieces: list[bytes], size: int) -> None:
    """Write files of `size` bytes, with blocks for the written part only."""
    folder.mkdir(parents=True)
    for number, piece in enumerate(pieces):
        with (folder / segment_name(number * size)).open("wb") as file:
            file.write(piece)
            file.truncate(size)
