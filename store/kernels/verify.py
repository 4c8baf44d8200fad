"""What a record can prove of itself beyond its lengths: CRCs, its own address, and its neighbours.

Each kernel returns the number of the first record that fails, or `count`; whoever wants them all goes on behind it.

Source: CommitLog.checkMessageAndReturnSize (4.9.8); MessageDecoder.createCrc32, CommitLog.doAppend (5.3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from store.formats import properties as names
from store.kernels.memory import body_crc, read_byte, read_long
from store.kernels.properties import NAME_END, PART_END

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

# The block at the end of a record: name, 0x01, ten digits with the lowest first, 0x02.
CRC_BLOCK_SIZE = 20
CRC_DIGITS = 10
_CRC_NAME = int.from_bytes(names.PROPERTIES_CRC.encode(), "big")
_ZERO = ord("0")
assert len(names.PROPERTIES_CRC) + 1 + CRC_DIGITS + 1 == CRC_BLOCK_SIZE

NO_QUEUE_OFFSET = -1


def first_bad_body(buffer: Any, columns: NDArray[int64], start: int, count: int) -> int:
    """First record whose body does not have the CRC it is stored with; an empty body always has."""
    for row in range(start, count):
        size = int(columns[3, row])
        if size > 0 and body_crc(buffer, int(columns[2, row]), size) != int(columns[13, row]):
            return row
    return count


def first_bad_log_offset(columns: NDArray[int64], start: int, count: int, file_start: int) -> int:
    """First record that names another place than its own: a leftover of an earlier life of the file."""
    for row in range(start, count):
        if int(columns[10, row]) != file_start + int(columns[0, row]):
            return row
    return count


def first_earlier(columns: NDArray[int64], start: int, count: int, latest_ms: int) -> int:
    """First record stored before the one in front of it; `latest_ms` is the store time in front of `start`."""
    for row in range(start, count):
        if int(columns[12, row]) < latest_ms:
            return row
        latest_ms = int(columns[12, row])
    return count


def first_queue_gap(
    columns: NDArray[int64], slots: NDArray[int64], start: int, count: int, next_offsets: NDArray[int64]
) -> int:
    """First record whose queue offset is not its queue's next.

    slots         queue number per record, negative to leave it out
    next_offsets  per queue the offset awaited, NO_QUEUE_OFFSET to take any; moved on here up to the record in front
    """
    for row in range(start, count):
        queue = int(slots[row])
        if queue < 0:
            continue
        offset = int(columns[9, row])
        if next_offsets[queue] not in (offset, NO_QUEUE_OFFSET):
            return row
        next_offsets[queue] = offset + 1
    return count


def first_bad_properties_crc(
    buffer: Any, columns: NDArray[int64], start: int, count: int, state: NDArray[int64]
) -> int:
    """First record whose `__CRC32#` property is not that of its bytes; state[0] counts those that have one."""
    state[0] = 0
    for row in range(start, count):
        position, size = int(columns[0, row]), int(columns[1, row])
        stored = stored_properties_crc(buffer, position + size, int(columns[7, row]))
        if stored < 0:
            continue
        state[0] += 1
        if body_crc(buffer, position, size - CRC_BLOCK_SIZE) != stored:
            return row
    return count


def stored_properties_crc(buffer: Any, end: int, properties_size: int) -> int:
    """The number in the block that ends at `end`, or -1 when the properties do not end with one."""
    start = end - CRC_BLOCK_SIZE
    if properties_size < CRC_BLOCK_SIZE or read_long(buffer, start) != _CRC_NAME:
        return -1
    if read_byte(buffer, start + 8) != NAME_END or read_byte(buffer, end - 1) != PART_END:
        return -1
    value = 0
    for place in range(end - 2, start + 8, -1):
        value = value * 10 + read_byte(buffer, place) - _ZERO
    return value


HELPERS = (stored_properties_crc,)
KERNELS = {
    "first_bad_body": (first_bad_body, "long(bytes, matrix, long, long)"),
    "first_bad_log_offset": (first_bad_log_offset, "long(matrix, long, long, long)"),
    "first_earlier": (first_earlier, "long(matrix, long, long, long)"),
    "first_queue_gap": (first_queue_gap, "long(matrix, longs, long, long, longs)"),
    "first_bad_properties_crc": (first_bad_properties_crc, "long(bytes, matrix, long, long, longs)"),
}
