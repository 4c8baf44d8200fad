"""Bytes compressed by zstd in frames, with the table of the seekable format at the end.

    frame 0 | frame 1 | … | skippable frame: magic, size | per frame: stored size, size | count, 0, magic

A stream has another skippable frame before the table: the SHA-256 of all previous frames.
Every zstd program unpacks such a file. With the table a reader finds any byte without reading earlier ones.

Source: contrib/seekable_format/zstd_seekable_compression_format.md (zstd 1.5).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

FRAME_BYTES = 4 << 20
CACHED_BYTES = 256 << 10
"""Bytes hashed and written at once: they stay in the processor's cache, so a write takes a third of the time."""
_SKIPPABLE, _SEEKABLE, _DIGEST = 0x184D2A5E, 0x8F92EAB1, 0x184D2A50
_HEADER, _ENTRY, _FOOTER = struct.Struct("<II"), struct.Struct("<II"), struct.Struct("<IBI")
assert (_HEADER.size, _ENTRY.size, _FOOTER.size) == (8, 8, 9)
_MOST_FRAMES = 1 << 27

Frames = Sequence[tuple[int, int]]
"""Stored size and size of each frame."""


def compress_frame(data: memoryview) -> bytes:
    """Compress at most FRAME_BYTES into one frame."""
    frame: bytes = _codec().compress(data, asbytes=True)
    return frame


def encode_table(frames: Frames) -> bytes:
    """Return the table for the end of the frames."""
    entries = b"".join(_ENTRY.pack(*one) for one in frames)
    head = _HEADER.pack(_SKIPPABLE, len(entries) + _FOOTER.size)
    return head + entries + _FOOTER.pack(len(frames), 0, _SEEKABLE)


def compress(data: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Compress a stream: yield frames of FRAME_BYTES, then their digest and the table."""
    frames, hasher = list[tuple[int, int]](), hashlib.sha256()
    for block in _blocks(data):
        frame = compress_frame(memoryview(block))
        frames.append((len(frame), len(block)))
        hasher.update(frame)
        yield frame
    digest = _HEADER.pack(_DIGEST, hasher.digest_size) + hasher.digest()
    yield digest
    yield encode_table([*frames, (len(digest), 0)])


def check_digest(read: Callable[[int, int], bytes | memoryview], frames: Frames) -> None:
    """Compare the frames of a stream with the digest after them; ValueError if they differ."""
    size, hasher = sum(stored for stored, _ in frames[:-1]), hashlib.sha256()
    for at in range(0, size, FRAME_BYTES):
        hasher.update(read(at, min(FRAME_BYTES, size - at)))
    wanted = _HEADER.pack(_DIGEST, hasher.digest_size) + hasher.digest()
    if not frames or bytes(read(size, frames[-1][0])) != wanted:
        raise ValueError("its digest is wrong: it was changed, or is not whole")


def _blocks(data: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Yield a stream in pieces of FRAME_BYTES; the last one may be shorter."""
    rest = bytearray()
    for part in data:
        rest += part
        while len(rest) >= FRAME_BYTES:
            yield bytes(rest[:FRAME_BYTES])
            del rest[:FRAME_BYTES]
    if rest:
        yield bytes(rest)


def read_table(read: Callable[[int, int], bytes | memoryview], stored_size: int) -> Frames:
    """Read a file's table; `read(position, size)` returns bytes of the file. ValueError if it is damaged."""
    if stored_size < _HEADER.size + _FOOTER.size:
        raise ValueError("too short for a table of frames")
    count, descriptor, magic = _FOOTER.unpack(read(stored_size - _FOOTER.size, _FOOTER.size))
    size = count * _ENTRY.size
    start = stored_size - _FOOTER.size - size
    if magic != _SEEKABLE or descriptor or count > _MOST_FRAMES or start < _HEADER.size:
        raise ValueError("no table of frames at its end")
    frames = list(_ENTRY.iter_unpack(read(start, size))) if count else []
    if sum(stored for stored, _ in frames) != start - _HEADER.size or any(one > FRAME_BYTES for _, one in frames):
        raise ValueError("its table of frames does not fit its size")
    return [(stored, one) for stored, one in frames]


def read_frames(
    read: Callable[[int, int], bytes | memoryview], frames: Frames, position: int, size: int
) -> Iterator[memoryview]:
    """Unpack the bytes [position, position + size), frame by frame; ValueError for a damaged frame."""
    ends, stored_ends = list(accumulate(one for _, one in frames)), list(accumulate(one for one, _ in frames))
    for number, (stored, length) in enumerate(frames):
        start = ends[number] - length
        if ends[number] <= position or start >= position + size:
            continue
        frame = read(stored_ends[number] - stored, stored)
        try:
            data = memoryview(_codec().decompress(frame, length, asbytes=True))
        except (OSError, ValueError) as error:
            raise ValueError(f"frame {number} is damaged: {error}") from None
        yield data[max(position - start, 0) : position + size - start]


def _codec() -> Any:
    # Loading pyarrow takes longer than most commands.
    from pyarrow import Codec

    return Codec("zstd")
