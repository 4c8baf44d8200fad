"""The units of one queue file as an array with the fields log_offset, size and tags_code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from store import kernels
from store.files.mapped_file import MappedFile
from store.formats.derived import is_pre_blank, units_of
from store.formats.queue_unit import MAX_EXT_ADDRESS, UNIT_SIZE, is_ext_address
from store.formats.run import Int64Array
from store.structures.consumequeue.consume_queue_ext import ConsumeQueueExt

UnitArray = npt.NDArray[np.void]
LAST_ADDRESS = (1 << 63) - 1
_CHUNK_UNITS = 8192
_CHUNK_BYTES = _CHUNK_UNITS * UNIT_SIZE
FIRST_UNITS = 204
"""The units of a file's first page, read first."""


class FileUnits(NamedTuple):
    """The units of one queue file that point to records, by column."""

    queue_offsets: Int64Array
    log_offsets: Int64Array
    sizes: Int64Array


def unit_array(file: MappedFile) -> UnitArray:
    """Return all units of a file as an array with the fields log_offset, size and tags_code.

    The array is a view of the file. StoreIOError if written bytes can't be read.
    """
    file.require_written(_CHUNK_BYTES)
    return units_of(file.buffer)


def first_between(file: MappedFile, low: int, high: int) -> int:
    """Return the first unit's position with a log offset in low … high - 1; the unit count without one."""
    file.require_written(_CHUNK_BYTES)
    return int(kernels.first_unit_between(file.buffer, file.readable_position // UNIT_SIZE, low, high))


def first_log_offset(file: MappedFile) -> int:
    """Return the log offset in a file's first unit of a record, -1 if it has none."""
    first = first_between(file, -LAST_ADDRESS, LAST_ADDRESS)
    count = file.readable_position // UNIT_SIZE
    return int(unit_array(file)["log_offset"][first]) if first < count else -1


def units_between(file: MappedFile, low: int, high: int) -> FileUnits:
    """Copy the columns of a file's units that point into log offsets low … high - 1."""
    first = first_between(file, low, high)
    units = unit_array(file)[first : file.readable_position // UNIT_SIZE]
    inside = (units["log_offset"] >= low) & (units["log_offset"] < high)
    rows = np.flatnonzero(inside & (units["size"] > 0) & ~is_pre_blank(units))
    log_offsets, sizes = units["log_offset"][rows].astype(np.int64), units["size"][rows].astype(np.int64)
    return FileUnits(rows + first + file.file_start // UNIT_SIZE, log_offsets, sizes)


def extension_positions(file: MappedFile, min_log_offset: int = 0) -> Int64Array:
    """Return the extension file positions in the units at or after `min_log_offset`."""
    units = unit_array(file)[: file.readable_position // UNIT_SIZE]
    codes = units["tags_code"][units["log_offset"] >= min_log_offset].astype(np.int64)
    return codes[codes <= MAX_EXT_ADDRESS] & LAST_ADDRESS


def is_written(unit: np.void) -> bool:
    """Return whether a broker treats the unit as written."""
    return bool(unit["log_offset"] >= 0 and unit["size"] > 0)


def written_count(units: UnitArray) -> int:
    """Count the written units before the first unwritten one."""
    for start, stop in _chunks(len(units)):
        chunk = units[start:stop]
        bad = (chunk["log_offset"] < 0) | (chunk["size"] <= 0)
        index = int(np.argmax(bad))
        if bad[index]:
            return start + index
    return len(units)


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    """Divide `count` units into growing parts, so that little of a sparse file is read."""
    start, size = 0, FIRST_UNITS
    while start < count:
        yield start, min(start + size, count)
        start, size = start + size, min(start + size, _CHUNK_UNITS)


def count_before(units: UnitArray, log_offset: int) -> int:
    """Count the written units before the first unwritten one and before any at or after `log_offset`."""
    for start, stop in _chunks(len(units)):
        chunk = units[start:stop]
        bad = (chunk["log_offset"] < 0) | (chunk["size"] <= 0) | (chunk["log_offset"] >= log_offset)
        index = int(np.argmax(bad))
        if bad[index]:
            return start + index
    return len(units)


def last_ext_address(units: UnitArray, before: int, ext: ConsumeQueueExt | None) -> int:
    if ext is None:
        return before
    addresses = [int(code) for code in units["tags_code"] if is_ext_address(int(code))]
    return addresses[-1] if addresses else before
