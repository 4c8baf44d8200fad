"""Carve a commit log's blocks from a disk image or a deleted file's space.

A file system keeps files in extents of whole 4 KiB blocks, so a segment begins at a multiple of a block. A record that
begins `at` bytes into a block gives the block's log offset: the record's own less `at`, a multiple of 4 KiB.

    1. the image is searched for every magic; the log offset of the record there places its block
    2. if the records of a block place it at several log offsets, the majority decides: the others are damaged, or
       copies inside a body
    3. the blocks that a placed block's last record reaches into follow it, unless another block has their log offset
    4. blanks show the ends of segments: the greatest common divisor of these log offsets is the segments' size
    5. the placed blocks are written to scratch segments, which are salvaged like any others
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from store.errors import BadRequest
from store.files.filesystem import Descriptor, Filesystem
from store.files.store_reader import StoreReader
from store.formats.message import BLANK_MAGIC, BLANK_SIZE, LOG_OFFSET_AT, RECORD_MIN_SIZE
from store.layout import segment_name
from store.structures.commitlog.resync import MAGIC

BLOCK_SIZE = 4096
DEFAULT_SEGMENT_SIZE = 1 << 30
# The default limits of brokers are lower (4 MiB and 64 KiB).
LARGEST_RECORD_SIZE = 8 << 20
HIGHEST_LOG_OFFSET = 1 << 56
_BLANK_MAGIC = re.compile(re.escape(BLANK_MAGIC.to_bytes(4, "big")))


def place_blocks(image: Path, fs: Filesystem) -> dict[int, int]:
    """Map log offset to position in the image, for every block of a commit log (steps 1 to 3)."""
    reader = StoreReader(str(image.parent), fs)
    placed: dict[int, int] = {}
    by_block: dict[int, int] = {}
    reaches: dict[tuple[int, int], int] = {}
    votes: Counter[tuple[int, int]] = Counter()
    for at, head in _heads(reader, image.name, MAGIC, 36):
        block, inside = at - at % BLOCK_SIZE, at % BLOCK_SIZE
        log_offset, size = int.from_bytes(head[28:36], "big") - inside, int.from_bytes(head[:4], "big")
        is_record = RECORD_MIN_SIZE <= size <= LARGEST_RECORD_SIZE
        if is_record and 0 <= log_offset < HIGHEST_LOG_OFFSET and not log_offset % BLOCK_SIZE:
            votes[block, log_offset] += 1
            # A blank may follow the record.
            reach = inside + size + BLANK_SIZE
            reaches[block, log_offset] = max(reaches.get((block, log_offset), 0), reach)
    for (block, log_offset), _ in votes.most_common():
        if block not in by_block:
            by_block[block] = log_offset
            placed.setdefault(log_offset, block)
    size = fs.stat(image).st_size
    for block, log_offset in by_block.items():
        for step in range(BLOCK_SIZE, reaches[block, log_offset], BLOCK_SIZE):
            if block + step in by_block or block + step >= size or log_offset + step in placed:
                break
            placed[log_offset + step] = block + step
    return placed


def infer_segment_size(image: Path, placed: dict[int, int], fs: Filesystem) -> int:
    """Infer the segments' size from the blanks in placed blocks (step 4); without any, the default."""
    log_offsets = {block: log_offset for log_offset, block in placed.items()}
    ends = _first_start(image, placed, fs)
    for position, head in _heads(StoreReader(str(image.parent), fs), image.name, _BLANK_MAGIC, BLANK_SIZE):
        log_offset = log_offsets.get(position - position % BLOCK_SIZE)
        if log_offset is not None:
            ends.append(log_offset + position % BLOCK_SIZE + int.from_bytes(head[:4], "big"))
    # A segment's size is whole blocks; a blank's magic inside a body seldom yields a multiple of a block.
    size = math.gcd(*(end for end in ends if not end % BLOCK_SIZE))
    return size if size % DEFAULT_SEGMENT_SIZE else DEFAULT_SEGMENT_SIZE


def _first_start(image: Path, placed: dict[int, int], fs: Filesystem) -> list[int]:
    """Return the log offset of the first placed block if a record begins with the block."""
    first = min(placed, default=None)
    if first is None:
        return []
    stored = fs.read(fs.open_read(image), placed[first] + LOG_OFFSET_AT, 8)
    return [first] if int.from_bytes(stored, "big") == first else []


def write_segments(
    image: Path, placed: dict[int, int], folder: Path, fs: Filesystem, segment_size: int = DEFAULT_SEGMENT_SIZE
) -> None:
    """Copy the placed blocks to sparse segments in `folder` (step 5).

    BadRequest for a size that is not whole blocks.
    """
    if segment_size <= 0 or segment_size % BLOCK_SIZE:
        raise BadRequest(f"segments of {segment_size} bytes are not whole blocks of {BLOCK_SIZE}", file=image)
    fs.make_folder(folder)
    source = fs.open_read(image)
    segments: dict[int, Descriptor] = {}
    for log_offset, block in sorted(placed.items()):
        start = log_offset - log_offset % segment_size
        if start not in segments:
            segments[start] = fs.create_file(folder / segment_name(start), segment_size, reserved=0)
        fs.write(segments[start], log_offset - start, fs.read(source, block, BLOCK_SIZE))


def _heads(reader: StoreReader, name: str, magic: re.Pattern[bytes], size: int) -> Iterator[tuple[int, bytes]]:
    """Yield position and first bytes of every size that one of these magics follows."""
    stretch = reader.map(name)
    for found in stretch.find(magic, 4, len(stretch.buffer)):
        at = found - 4
        if at + size <= len(stretch.buffer) and stretch.readable_end(at, at + size) == at + size:
            yield at, bytes(stretch.buffer[at : at + size])
