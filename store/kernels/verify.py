"""Checks of a record beyond its lengths: CRCs, log offset, store time and queue offset.

Each kernel returns the number of the first record that fails, or `count`; to find all, continue after it.

Source: CommitLog.checkMessageAndReturnSize (4.9.8); MessageDecoder.createCrc32, CommitLog.doAppend (5.3.3).
"""

from __future__ import annotations

from store.formats import properties as names
from store.formats.columns import Column
from store.kernels.cython import Address, Bytes, Long, Longs, Matrix, cfunc, kernel
from store.kernels.native import body_crc, read_byte, read_long, start_of
from store.kernels.properties import NAME_END, PART_END

# The block at the end of a record: name, 0x01, ten digits with the lowest first, 0x02.
CRC_BLOCK_SIZE = 20
CRC_DIGITS = 10
_CRC_NAME = int.from_bytes(names.PROPERTIES_CRC.encode(), "big")
_ZERO = ord("0")
assert len(names.PROPERTIES_CRC) + 1 + CRC_DIGITS + 1 == CRC_BLOCK_SIZE

NO_QUEUE_OFFSET = -1


@kernel
def first_bad_body(buffer: Bytes, columns: Matrix, start: Long, count: Long) -> Long:
    """Return the first record with a body that does not have the stored CRC; an empty body passes."""
    data = start_of(buffer)
    for row in range(start, count):
        size = columns[Column.BODY_SIZE, row]
        if size > 0 and body_crc(data, columns[Column.BODY_POSITION, row], size) != columns[Column.BODY_CRC, row]:
            return row
    return count


@kernel
def first_bad_log_offset(columns: Matrix, start: Long, count: Long, file_start: Long) -> Long:
    """Return the first record with another log offset than its position: a leftover in a reused file."""
    for row in range(start, count):
        if columns[Column.LOG_OFFSET, row] != file_start + columns[Column.POSITION, row]:
            return row
    return count


@kernel
def first_earlier(columns: Matrix, start: Long, count: Long, latest_ms: Long) -> Long:
    """Return the first record with a store time before the previous record's.

    latest_ms  the store time of the record before `start`
    """
    for row in range(start, count):
        if columns[Column.STORE_TIMESTAMP_MS, row] < latest_ms:
            return row
        latest_ms = columns[Column.STORE_TIMESTAMP_MS, row]
    return count


@kernel
def first_queue_gap(columns: Matrix, slots: Longs, start: Long, count: Long, next_offsets: Longs) -> Long:
    """Return the first record with a queue offset that is not its queue's next.

    slots         queue number per record, negative to skip the record
    next_offsets  per queue the expected offset, NO_QUEUE_OFFSET for any; updated up to the returned record
    """
    for row in range(start, count):
        queue = slots[row]
        if queue < 0:
            continue
        offset = columns[Column.QUEUE_OFFSET, row]
        if next_offsets[queue] not in (offset, NO_QUEUE_OFFSET):
            return row
        next_offsets[queue] = offset + 1
    return count


@kernel
def first_bad_properties_crc(buffer: Bytes, columns: Matrix, start: Long, count: Long, state: Longs) -> Long:
    """Return the first record with a wrong `__CRC32#`; state[0] is the number of records that have one."""
    data = start_of(buffer)
    state[0] = 0
    for row in range(start, count):
        position, size = columns[Column.POSITION, row], columns[Column.SIZE, row]
        stored = stored_properties_crc(data, position + size, columns[Column.PROPERTIES_SIZE, row])
        if stored < 0:
            continue
        state[0] += 1
        if body_crc(data, position, size - CRC_BLOCK_SIZE) != stored:
            return row
    return count


@cfunc
def stored_properties_crc(buffer: Address, end: Long, properties_size: Long) -> Long:
    """Return the CRC in the block that ends at `end`, or -1 if the properties do not end with a block."""
    start = end - CRC_BLOCK_SIZE
    if properties_size < CRC_BLOCK_SIZE or read_long(buffer, start) != _CRC_NAME:
        return -1
    if read_byte(buffer, start + 8) != NAME_END or read_byte(buffer, end - 1) != PART_END:
        return -1
    value = 0
    for place in range(end - 2, start + 8, -1):
        value = value * 10 + read_byte(buffer, place) - _ZERO
    return value
