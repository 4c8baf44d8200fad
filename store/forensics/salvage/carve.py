"""Carve a commit log's blocks from a disk image or a deleted file's space.

A file system keeps a file in extents of whole 4 KiB blocks, and a segment begins at a multiple of a block. So a record
that begins `at` bytes into a block tells where the block was: at its own log offset less `at`, a multiple of 4 KiB.

    1. every magic in the image is looked at; the log offset of the record there places its block
    2. a magic whose record would place the block anywhere else is a copy inside a body
    3. a block without a record's start continues the block before it, unless another block has that place
    4. the placed blocks are written to scratch segments, which are salvaged as any others
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from store.disk.filesystem import Descriptor, Filesystem
from store.disk.store_reader import StoreReader
from store.formats.message import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, RECORD_MIN_SIZE
from store.layout import segment_name

BLOCK_SIZE = 4096
SCRATCH_SEGMENT_SIZE = 1 << 30
# No broker's default lets a record be larger (4 MiB and 64 KiB).
LARGEST_RECORD_SIZE = 8 << 20
HIGHEST_LOG_OFFSET = 1 << 56
_SEARCH_BYTES = 1 << 20
_MAGIC = re.compile(b"|".join(re.escape(one.to_bytes(4, "big")) for one in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2)))


def place_blocks(image: Path, fs: Filesystem) -> dict[int, int]:
    """Log offset → position in the image, for every block that belongs to a commit log (steps 1 to 3)."""
    reader = StoreReader(str(image.parent), fs)
    placed: dict[int, int] = {}
    by_block: dict[int, int] = {}
    for block, log_offset in _block_places(reader, image.name):
        if block not in by_block:
            by_block[block] = log_offset
            placed.setdefault(log_offset, block)
    size = fs.stat(image).st_size
    for block, log_offset in by_block.items():
        for step in range(BLOCK_SIZE, LARGEST_RECORD_SIZE, BLOCK_SIZE):
            if block + step in by_block or block + step >= size or log_offset + step in placed:
                break
            placed[log_offset + step] = block + step
    return placed


def write_segments(image: Path, placed: dict[int, int], folder: Path, fs: Filesystem) -> None:
    """Copies the placed blocks to sparse segments in `folder` (step 4)."""
    fs.make_folder(folder)
    source = fs.open_read(image)
    segments: dict[int, Descriptor] = {}
    for log_offset, block in sorted(placed.items()):
        start = log_offset - log_offset % SCRATCH_SEGMENT_SIZE
        if start not in segments:
            segments[start] = fs.create_file(folder / segment_name(start), SCRATCH_SEGMENT_SIZE, reserved=0)
        fs.write(segments[start], log_offset - start, fs.read(source, block, BLOCK_SIZE))


def _block_places(reader: StoreReader, name: str) -> Iterator[tuple[int, int]]:
    """(position of a block, its log offset) for every magic whose record places a whole block."""
    stretch = reader.map(name)
    buffer = stretch.buffer
    position, stop = 0, len(buffer)
    while position < stop:
        wanted = min(stop, position + _SEARCH_BYTES)
        end = stretch.readable_end(position, wanted)
        for match in _MAGIC.finditer(buffer[position:end]):
            at = position + match.start() - 4
            head = bytes(buffer[at : at + 36]) if 0 <= at <= end - 36 else b""
            log_offset = int.from_bytes(head[28:36], "big") - at % BLOCK_SIZE
            size = int.from_bytes(head[:4], "big")
            is_whole = len(head) == 36 and RECORD_MIN_SIZE <= size <= LARGEST_RECORD_SIZE
            if is_whole and 0 <= log_offset < HIGHEST_LOG_OFFSET and not log_offset % BLOCK_SIZE:
                yield at - at % BLOCK_SIZE, log_offset
        # A record's head may begin in one piece and end in the next.
        behind = end - 35 if end < stop else end
        position = stretch.behind_unreadable(end, stop) if end < wanted else max(behind, position + 1)
