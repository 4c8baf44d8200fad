"""Restores a producer's body from the stored one: producers compress bodies from 4 KiB on.

    sysFlag bit 0    the body is compressed
    bits 8 to 10     compression: 0 and 3 zlib (RFC 1950), 1 an LZ4 frame, 2 a zstd frame, 4 to 7 are not defined

The CRC of a record covers the stored bytes. A stored body of 4 MiB may expand a thousandfold, so the output is
bounded. Source: Compressor, CompressionType, MessageSysFlag (5.3.3); 4.9 has only zlib.
"""

from __future__ import annotations

import zlib
from enum import StrEnum
from typing import Any, NamedTuple

from store.errors import BadRequest
from store.formats.message import COMPRESSED

COMPRESSION_SHIFT = 8
COMPRESSION_MASK = 0x700
MAX_BODY_SIZE = 64 << 20
"""The most bytes of a decompressed body: sixteen times a broker's default limit for bodies."""
ZLIB_LEVEL = 5
"""The client's default (rocketmq.message.compressLevel)."""

ZLIB, LZ4, ZSTD = "zlib", "lz4", "zstd"
_NAMES = {0: ZLIB, 1: LZ4, 2: ZSTD, 3: ZLIB}


class BodyState(StrEnum):
    """The state of the bytes in a Body."""

    PLAIN = "plain"
    """Never compressed."""
    DECOMPRESSED = "decompressed"
    STORED = "stored"
    """Compressed, as in the record."""


class Body(NamedTuple):
    """A restored body, or the stored one with the `problem`. A plain body has no `compression`."""

    data: bytes
    compression: str | None
    state: BodyState
    problem: str = ""


def compression_of(sys_flag: int) -> str | None:
    """Return zlib, lz4 or zstd; None for a plain body; `type N` for an undefined compression."""
    if not sys_flag & COMPRESSED:
        return None
    number = (sys_flag & COMPRESSION_MASK) >> COMPRESSION_SHIFT
    return _NAMES.get(number, f"type {number}")


def decode_body(stored: bytes, sys_flag: int, *, max_size: int = MAX_BODY_SIZE) -> Body:
    """Restore the producer's body; on failure keep the stored one, with the problem."""
    compression = compression_of(sys_flag)
    if compression is None:
        return Body(stored, None, BodyState.PLAIN)
    try:
        data = _decompress(stored, compression, max_size)
    except ValueError as error:
        return Body(stored, compression, BodyState.STORED, str(error))
    return Body(data, compression, BodyState.DECOMPRESSED)


def encode_body(data: bytes, compression: str) -> bytes:
    """Compress a body as a producer does; BadRequest for an unknown compression."""
    if compression == ZLIB:
        return zlib.compress(data, ZLIB_LEVEL)
    if compression not in (LZ4, ZSTD):
        raise BadRequest(f"no compression is called {compression!r}", hint="zlib, lz4 or zstd")
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, compression) as stream:
        stream.write(data)
    compressed: bytes = sink.getvalue().to_pybytes()
    return compressed


def _decompress(stored: bytes, compression: str, max_size: int) -> bytes:
    """Return the whole body; ValueError with the reason if that is impossible."""
    if compression == ZLIB:
        data = _inflate(stored, max_size)
    elif compression in (LZ4, ZSTD):
        data = _read_frame(stored, compression, max_size)
    else:
        raise ValueError(f"compression {compression} is not defined")
    if len(data) > max_size:
        raise ValueError(f"the {compression} body is larger than {max_size} bytes")
    return data


def _inflate(stored: bytes, max_size: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(stored, max_size + 1)
    except zlib.error:
        raise ValueError("the body is no zlib stream") from None
    if not stream.eof and len(data) <= max_size:
        raise ValueError(f"the zlib stream stops early, after {len(data)} bytes")
    return data


def _read_frame(stored: bytes, compression: str, max_size: int) -> bytes:
    import pyarrow

    if not stored:
        # pyarrow reads it as an empty body.
        raise ValueError(f"the body is no {compression} frame: it is empty")
    source: Any = pyarrow.BufferReader(stored)
    try:
        data: bytes = pyarrow.CompressedInputStream(source, compression).read(max_size + 1)
    except OSError:
        raise ValueError(f"the body is no {compression} frame, or it stops early") from None
    return data
