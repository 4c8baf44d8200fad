"""Reads fields at many positions of a buffer at once, without a loop over records.

longs, ints      big-endian numbers at byte positions: one fancy index over an overlapping view of the buffer
slices           byte strings at (position, size): the buffer itself is the data of an Arrow array whose offsets
                 are start, end, start, end …; taking every other element copies each string once, in C++
distinct_text    byte strings as text: each distinct value is decoded once, as in Java (malformed bytes become U+FFFD)
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.formats.java import decode_utf8

Ints = npt.NDArray[np.int64]
Buffer: TypeAlias = bytes | memoryview | npt.NDArray[np.uint8]

HEX_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def bytes_of(buffer: Buffer) -> npt.NDArray[np.uint8]:
    return np.frombuffer(buffer, np.uint8)


def _view(buffer: Buffer) -> memoryview:
    # NumPy's types have __buffer__ from Python 3.12 on.
    return memoryview(buffer)  # type: ignore[arg-type]


def ints(buffer: Buffer, positions: Ints) -> npt.NDArray[np.int32]:
    """Return the signed big-endian 32-bit numbers at these positions.

    Every number must lie inside the buffer.
    """
    return np.asarray(_numbers(buffer, positions, ">i4"), np.int32)


def longs(buffer: Buffer, positions: Ints) -> Ints:
    """Return the signed big-endian 64-bit numbers at these positions.

    Every number must lie inside the buffer.
    """
    return np.asarray(_numbers(buffer, positions, ">i8"), np.int64)


def _numbers(buffer: Buffer, positions: Ints, kind: str) -> npt.NDArray[Any]:
    width = np.dtype(kind).itemsize
    places = _view(buffer).nbytes - width + 1
    if places <= 0:
        return np.empty(0, kind)
    return np.ndarray((places,), kind, buffer, strides=(1,))[positions]


def rows(buffer: Buffer, positions: Ints, width: int) -> npt.NDArray[np.uint8]:
    """Return `width` bytes at each position, as an array of shape (count, width)."""
    return np.asarray(bytes_of(buffer)[positions[:, None] + np.arange(width)])


def slices(buffer: Buffer, positions: Ints, sizes: Ints) -> pa.Array:
    """Return the byte strings at these positions; a size below 0 counts as 0.

    Positions rise, and the strings do not overlap.
    """
    count = len(positions)
    if not count:
        return pa.array([], pa.binary())
    base = int(positions[0])
    offsets = np.empty(2 * count + 1, np.int64)
    offsets[0:-1:2] = positions - base
    offsets[1::2] = offsets[0:-1:2] + np.maximum(sizes, 0)
    offsets[-1] = offsets[-2]
    data = pa.py_buffer(_view(buffer)[base : base + int(offsets[-1])])
    wide = pa.Array.from_buffers(pa.large_binary(), 2 * count, [None, pa.py_buffer(offsets), data])
    return wide.take(pa.array(np.arange(0, 2 * count, 2))).cast(pa.binary())


def distinct_text(strings: pa.Array) -> pa.DictionaryArray:
    """Return byte strings as dictionary-encoded text.

    Two different byte strings that decode to equal text stay two dictionary entries.
    """
    encoded = strings.dictionary_encode()
    words = pa.array([decode_utf8(word.as_py()) for word in encoded.dictionary], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, words)


def text(strings: pa.Array) -> pa.Array:
    """Return byte strings as text: cast if all are UTF-8, else decode one by one."""
    try:
        return strings.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if s is None else decode_utf8(s) for s in strings.to_pylist()], pa.string())


def hex_text(data: npt.NDArray[np.uint8]) -> pa.Array:
    """Return each row of bytes as upper-case hex."""
    count, width = data.shape
    digits = np.empty((count, 2 * width), np.uint8)
    digits[:, 0::2] = HEX_DIGITS[data >> 4]
    digits[:, 1::2] = HEX_DIGITS[data & 15]
    offsets = np.arange(count + 1, dtype=np.int32) * (2 * width)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(digits.tobytes())])
