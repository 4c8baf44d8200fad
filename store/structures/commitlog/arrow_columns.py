"""Columns of an Arrow record batch as arrays of MessageColumns; BadRequest has name and type.

    bytes_of      binary, string, large_binary, large_string: the data is shared, not copied. Views, fixed-size binary
                  and dictionaries have another layout and are cast
    topics_of     strings of any of these layouts, or a dictionary of them
    numbers_of    any type that Arrow casts to int64 without loss, 0 where null

The first call imports pyarrow, so stores without record batches do not load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from store.errors import BadRequest
from store.formats.run import Int64Array

if TYPE_CHECKING:
    import pyarrow as pa


def bytes_of(batch: pa.RecordBatch, name: str, *, may_be_null: bool) -> tuple[memoryview, Int64Array]:
    """Return the column's data and n + 1 offsets into it: the first value's start, then each end."""
    array = _plain(batch.column(name), name)
    if array.null_count and not may_be_null:
        raise BadRequest(f"the column {name} has nulls")
    if array.null_count:
        array = array.fill_null(b"")
    _, offsets, data = array.buffers()
    if not len(array):
        return memoryview(b""), np.zeros(1, np.int64)
    width = np.int64 if str(array.type).startswith("large") else np.int32
    ends = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return memoryview(data).cast("B") if data is not None else memoryview(b""), ends


def topics_of(batch: pa.RecordBatch, name: str) -> tuple[list[str], Int64Array]:
    """Return the distinct topics, and the index of each row's topic."""
    import pyarrow as pa

    array = batch.column(name)
    if not pa.types.is_dictionary(array.type) or array.dictionary.null_count:
        array = _plain(array, name).dictionary_encode()
    try:
        topics = array.dictionary.to_pylist()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the column {name} is not UTF-8: {error}") from error
    if any(not isinstance(topic, str) for topic in topics):
        raise BadRequest(f"the column {name} must hold strings, not {array.dictionary.type}")
    if array.null_count:
        raise BadRequest(f"the column {name} has nulls")
    return topics, np.asarray(array.indices).astype(np.int64)


def numbers_of(batch: pa.RecordBatch, name: str) -> Int64Array:
    """Return the column's numbers, 0 where null."""
    import pyarrow as pa

    array = batch.column(name)
    try:
        return np.asarray(array.cast(pa.int64()).fill_null(0)).astype(np.int64)
    except pa.ArrowException as error:
        raise BadRequest(f"the column {name} must hold integers, not {array.type}: {error}") from error


def _plain(array: pa.Array, name: str) -> pa.Array:
    """Return the array; cast types that have no offsets buffer and data buffer."""
    import pyarrow as pa

    types, kind = pa.types, array.type
    if types.is_binary(kind) or types.is_string(kind) or types.is_large_binary(kind) or types.is_large_string(kind):
        return array
    try:
        if types.is_dictionary(kind):
            return _plain(array.dictionary_decode(), name)
        if types.is_string_view(kind):
            return array.cast(pa.large_string())
        if types.is_binary_view(kind) or types.is_fixed_size_binary(kind) or types.is_null(kind):
            return array.cast(pa.large_binary())
    except pa.ArrowException as error:
        raise BadRequest(f"the column {name} of type {kind} cannot be cast to binary: {error}") from error
    raise BadRequest(f"the column {name} must be binary or string, not {kind}")
