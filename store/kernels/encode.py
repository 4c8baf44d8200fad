"""Many messages at once from columns into the mapped segment, as V1 records.

    numbers    int64 [len(NUMBER_NAMES), messages], a row per field, see below
    bodies     all bodies one after another; body_ends: int64 [messages + 1], as Arrow's offsets
    properties, property_ends   the same for the stored property strings
    topics, topic_ends          the distinct topics' bytes; numbers say which
    hosts      40 bytes: born host at 0, store host at 20 (8 or 20 of them are used, by the sys flag)

The result is what the broker's encoder and append callback write, and the columns that a scan of it would give, so
that dispatch needs no second look.

Source: CommitLog.MessageExtEncoder.encode, DefaultAppendMessageCallback.doAppend (4.9.8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from store.kernels.memory import body_crc, copy_bytes, write_byte, write_int, write_long, write_short
from store.kernels.scan import (
    BLANK,
    BORN_HOST_V6,
    DAMAGE,
    FIXED_SIZE,
    FULL,
    LIMIT,
    MAGIC_V1,
    NEXT_POSITION,
    OUTCOME,
    SIZE,
    STORE_HOST_V6,
    V6_EXTRA,
)

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

NUMBER_NAMES = (
    "topic",
    "queue",
    "queue_id",
    "flag",
    "sys_flag",
    "born_timestamp_ms",
    "store_timestamp_ms",
    "reconsume_times",
    "prepared_transaction_offset",
)
(
    TOPIC,
    QUEUE,
    QUEUE_ID,
    FLAG,
    SYS_FLAG,
    BORN_TIME,
    STORE_TIME,
    RECONSUMED,
    PREPARED_OFFSET,
) = range(len(NUMBER_NAMES))

HOSTS_SIZE = 40
STORE_HOST_AT = 20
BLANK_SIZE = 8
MAX_TOPIC_SIZE = 127
MAX_PROPERTIES_SIZE = 32_767
TRANSACTION_MASK = 0xC
TRANSACTION_COMMIT = 0x8


def encode_records(
    segment: Any,
    position: int,
    file_start: int,
    bodies: Any,
    body_ends: NDArray[int64],
    properties: Any,
    property_ends: NDArray[int64],
    topics: Any,
    topic_ends: NDArray[int64],
    hosts: Any,
    numbers: NDArray[int64],
    start: int,
    next_queue_offsets: NDArray[int64],
    columns: NDArray[int64],
    state: NDArray[int64],
) -> int:
    """Write messages from `start` on until the segment, the columns or the messages end; returns how many.

    segment             the mapped file; its length is the segment's size
    next_queue_offsets  per queue (numbers' row "queue") the next queue offset; moved on here. Prepared and
                        rolled-back messages take 0 and move nothing
    state               next position; outcome: LIMIT all written, FULL columns are full, BLANK the next record and a
                        blank do not fit, DAMAGE a topic or property string is too long; size of that next record
    """
    capacity = min(columns.shape[1], numbers.shape[1] - start)
    count = 0
    outcome = LIMIT if capacity == numbers.shape[1] - start else FULL
    size = 0
    while count < capacity:
        message = start + count
        size = record_size(numbers, message, body_ends, property_ends, topic_ends)
        if size < 0:
            outcome = DAMAGE
            break
        if size + BLANK_SIZE > len(segment) - position:
            outcome = BLANK
            break
        write_head(segment, position, file_start, size, hosts, numbers, message, next_queue_offsets, columns, count)
        write_body(segment, bodies, body_ends, message, columns, count)
        write_topic(segment, topics, topic_ends, int(numbers[TOPIC, message]), columns, count)
        write_properties(segment, properties, property_ends, message, columns, count)
        position += size
        count += 1
    state[NEXT_POSITION] = position
    state[OUTCOME] = outcome
    state[SIZE] = size
    return count


def record_size(
    numbers: NDArray[int64],
    message: int,
    body_ends: NDArray[int64],
    property_ends: NDArray[int64],
    topic_ends: NDArray[int64],
) -> int:
    """Size of the record, or -1 when a part has a size that the format can't hold."""
    topic = int(numbers[TOPIC, message])
    topic_size = int(topic_ends[topic + 1]) - int(topic_ends[topic])
    properties_size = int(property_ends[message + 1]) - int(property_ends[message])
    body_size = int(body_ends[message + 1]) - int(body_ends[message])
    if min(topic_size, properties_size, body_size) < 0:
        return -1
    if topic_size > MAX_TOPIC_SIZE or properties_size > MAX_PROPERTIES_SIZE:
        return -1
    flag = int(numbers[SYS_FLAG, message])
    extra = (V6_EXTRA if flag & BORN_HOST_V6 else 0) + (V6_EXTRA if flag & STORE_HOST_V6 else 0)
    return FIXED_SIZE + extra + topic_size + properties_size + body_size


def take_queue_offset(numbers: NDArray[int64], message: int, next_queue_offsets: NDArray[int64]) -> int:
    """The message's place in its queue."""
    transaction = int(numbers[SYS_FLAG, message]) & TRANSACTION_MASK
    if transaction not in (0, TRANSACTION_COMMIT):
        return 0
    queue = int(numbers[QUEUE, message])
    queue_offset = int(next_queue_offsets[queue])
    next_queue_offsets[queue] = queue_offset + 1
    return queue_offset


def write_head(
    segment: Any,
    at: int,
    file_start: int,
    size: int,
    hosts: Any,
    numbers: NDArray[int64],
    message: int,
    next_queue_offsets: NDArray[int64],
    columns: NDArray[int64],
    row: int,
) -> None:
    """The fields before the body size; the CRC is left for write_body."""
    flag = int(numbers[SYS_FLAG, message])
    queue_offset = take_queue_offset(numbers, message, next_queue_offsets)
    born_size = 8 + (V6_EXTRA if flag & BORN_HOST_V6 else 0)
    store_size = 8 + (V6_EXTRA if flag & STORE_HOST_V6 else 0)
    write_int(segment, at, size)
    write_int(segment, at + 4, MAGIC_V1)
    write_int(segment, at + 12, int(numbers[QUEUE_ID, message]))
    write_int(segment, at + 16, int(numbers[FLAG, message]))
    write_long(segment, at + 20, queue_offset)
    write_long(segment, at + 28, file_start + at)
    write_int(segment, at + 36, flag)
    write_long(segment, at + 40, int(numbers[BORN_TIME, message]))
    copy_bytes(segment, at + 48, hosts, 0, born_size)
    write_long(segment, at + 48 + born_size, int(numbers[STORE_TIME, message]))
    copy_bytes(segment, at + 56 + born_size, hosts, STORE_HOST_AT, store_size)
    tail = at + 56 + born_size + store_size
    write_int(segment, tail, int(numbers[RECONSUMED, message]))
    write_long(segment, tail + 4, int(numbers[PREPARED_OFFSET, message]))
    columns[0, row] = at
    columns[1, row] = size
    columns[2, row] = tail + 16
    columns[8, row] = int(numbers[QUEUE_ID, message])
    columns[9, row] = queue_offset
    columns[10, row] = file_start + at
    columns[11, row] = flag
    columns[12, row] = int(numbers[STORE_TIME, message])


def write_body(
    segment: Any, bodies: Any, ends: NDArray[int64], message: int, columns: NDArray[int64], row: int
) -> None:
    """Body size, body, and the CRC, taken while the bytes are still near."""
    start = int(ends[message])
    size = int(ends[message + 1]) - start
    at = int(columns[2, row])
    write_int(segment, at - 4, size)
    copy_bytes(segment, at, bodies, start, size)
    crc = body_crc(bodies, start, size)
    write_int(segment, int(columns[0, row]) + 8, crc)
    columns[3, row] = size
    columns[13, row] = crc


def write_topic(segment: Any, topics: Any, ends: NDArray[int64], topic: int, columns: NDArray[int64], row: int) -> None:
    start = int(ends[topic])
    size = int(ends[topic + 1]) - start
    at = int(columns[2, row]) + int(columns[3, row])
    write_byte(segment, at, size)
    copy_bytes(segment, at + 1, topics, start, size)
    columns[4, row] = at + 1
    columns[5, row] = size


def write_properties(
    segment: Any, properties: Any, ends: NDArray[int64], message: int, columns: NDArray[int64], row: int
) -> None:
    start = int(ends[message])
    size = int(ends[message + 1]) - start
    at = int(columns[4, row]) + int(columns[5, row])
    write_short(segment, at, size)
    copy_bytes(segment, at + 2, properties, start, size)
    columns[6, row] = at + 2
    columns[7, row] = size


ENCODE_SIGNATURE = (
    "long(writable, long, long, bytes, longs, bytes, longs, bytes, longs, bytes, matrix, long, longs, matrix, longs)"
)
HELPERS = (take_queue_offset, record_size, write_head, write_body, write_topic, write_properties)
KERNELS = {
    "encode_records": (
        encode_records,
        ENCODE_SIGNATURE,
    ),
}
