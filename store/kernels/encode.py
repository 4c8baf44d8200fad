"""Many messages at once from columns into the mapped segment, as V1 records.

    numbers    int64 [len(NUMBER_NAMES), messages], a row per field, see below
    bodies     all bodies one after another; body_ends: int64 [messages + 1], as Arrow's offsets
    properties, property_ends   the same for the stored property strings
    topics, topic_ends          the distinct topics' bytes; numbers has the topic of each message
    hosts      40 bytes a pair: born host at 0, store host at 20 (8 or 20 of them are used, by the sys flag)

append_message takes one message instead:

    gate        16 bytes: a long that is not 0 while one thread has the log to itself; the newest store time, updated
    wrote       8 bytes: the position after the last record, updated
    limit       the position up to which bytes may be written, at most the segment's size
    queue_end   8 bytes: the next queue offset, updated; prepared and rolled-back messages get 0 and do not change it
    hosts       born and store host, 8 bytes each, or 20 for IPv6 by sys_flag
    result      the position, or NO_ROOM (record and eight zeros do not fit), BAD_PART (a part or a number is too large
                for its field), BUSY (the gate is closed), LATE (the store time is before the newest), LOST_PAGE (a page
                of some map was lost, so the record may not be in the file)

The bytes are those of the broker's encoder and append callback, and the columns those of a scan: dispatch needs no
second scan.

Source: CommitLog.MessageExtEncoder.encode, DefaultAppendMessageCallback.doAppend (4.9.8).
"""

from __future__ import annotations

from store.formats.columns import Column
from store.kernels.cython import Address, Bytes, Flag, Long, Longs, Matrix, Writable, cfunc, kernel, short_kernel
from store.kernels.native import (
    body_crc,
    copy_bytes,
    has_lost_page,
    read_long,
    size_of,
    start_of,
    write_byte,
    write_int,
    write_long,
    write_short,
)
from store.kernels.scan import (
    BLANK,
    BORN_HOST_V6,
    DAMAGE,
    FIXED_SIZE,
    FULL,
    LIMIT,
    MAGIC_V1,
    MAGIC_V2,
    NEXT_POSITION,
    OUTCOME,
    SIZE,
    STORE_HOST_V6,
    V6_EXTRA,
)

NUMBER_NAMES = (
    "topic", "queue", "queue_id", "flag", "sys_flag", "born_timestamp_ms", "store_timestamp_ms", "reconsume_times",
    "prepared_transaction_offset", "hosts",
)  # fmt: skip
(
    TOPIC, QUEUE, QUEUE_ID, FLAG, SYS_FLAG, BORN_TIME, STORE_TIME, RECONSUMED, PREPARED_OFFSET, HOSTS,
) = range(len(NUMBER_NAMES))  # fmt: skip

STORE_HOST_AT, BLANK_SIZE, MAX_TOPIC_SIZE = 20, 8, 127
MAX_PROPERTIES_SIZE = MAX_SHORT = 32_767
MIN_INT, MAX_INT = -(1 << 31), (1 << 31) - 1
# Results of append_message without an append; for LOST_PAGE the bytes are written, but `wrote` is not raised.
NO_ROOM, BAD_PART, BUSY, LATE, LOST_PAGE = -1, -2, -3, -4, -5
TRANSACTION_MASK, TRANSACTION_COMMIT = 0xC, 0x8


@kernel
def encode_records(
    segment: Writable,
    position: Long,
    file_start: Long,
    bodies: Bytes,
    body_ends: Longs,
    properties: Bytes,
    property_ends: Longs,
    topics: Bytes,
    topic_ends: Longs,
    hosts: Bytes,
    numbers: Matrix,
    start: Long,
    next_queue_offsets: Longs,
    columns: Matrix,
    state: Longs,
) -> Long:
    """Write messages from `start` until segment, columns or messages end; return their number.

    segment             the mapped file; its length is the segment's size
    next_queue_offsets  per queue (numbers' row "queue") the next queue offset, updated; prepared and rolled-back
                        messages get 0 and do not change it
    state               next position; outcome: LIMIT all written, FULL columns are full, BLANK the next record and a
                        blank do not fit, DAMAGE a topic or property string is too long; size of that next record
    """
    target, host_bytes = start_of(segment), start_of(hosts)
    body_bytes, property_bytes, topic_bytes = start_of(bodies), start_of(properties), start_of(topics)
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
        if size + BLANK_SIZE > size_of(segment) - position:
            outcome = BLANK
            break
        write_head(target, position, file_start, size, host_bytes, numbers, message, next_queue_offsets, columns, count)
        write_body(target, body_bytes, body_ends, message, columns, count)
        write_topic(target, topic_bytes, topic_ends, numbers[TOPIC, message], columns, count)
        write_properties(target, property_bytes, property_ends, message, columns, count)
        position += size
        count += 1
    state[NEXT_POSITION] = position
    state[OUTCOME] = outcome
    state[SIZE] = size
    return count


@short_kernel
def append_message(
    gate: Writable,
    wrote: Writable,
    segment: Writable,
    file_start: Long,
    limit: Long,
    queue_end: Writable,
    store_timestamp_ms: Long,
    topic: Bytes,
    body: Bytes,
    properties: Bytes,
    hosts: Bytes,
    queue_id: Long,
    flag: Long,
    sys_flag: Long,
    born_timestamp_ms: Long,
    reconsume_times: Long,
    prepared_transaction_offset: Long,
) -> Long:
    """Append one record to the segment; return its position, or a negative reason.

    The call holds the GIL from its first read to its last write, so that threads need no lock. Magic and size are
    written last, so that a killed process leaves no partial record.
    """
    topic_size, body_size, properties_size = size_of(topic), size_of(body), size_of(properties)
    hosts_size = host_size(sys_flag & BORN_HOST_V6) + host_size(sys_flag & STORE_HOST_V6)
    is_v2: Flag = topic_size > MAX_TOPIC_SIZE
    size = FIXED_SIZE + hosts_size - 16 + body_size + topic_size + properties_size + (1 if is_v2 else 0)
    fits: Flag = is_int(queue_id) and is_int(flag) and is_int(sys_flag) and is_int(reconsume_times) and is_int(size)
    if not fits or topic_size > MAX_SHORT or properties_size > MAX_SHORT or size_of(hosts) != hosts_size:
        return BAD_PART
    refusal = refuses(start_of(gate), store_timestamp_ms)
    if refusal != 0:
        return refusal
    at = read_long(start_of(wrote), 0)
    if at < 0 or size + BLANK_SIZE > min(limit, size_of(segment)) - at:
        return NO_ROOM
    written: Flag = append_record(
        start_of(gate), start_of(wrote), start_of(segment), file_start, start_of(queue_end), store_timestamp_ms, size,
        start_of(topic), topic_size, start_of(body), body_size, start_of(properties), properties_size, start_of(hosts),
        queue_id, flag, sys_flag, born_timestamp_ms, reconsume_times, prepared_transaction_offset,
    )  # fmt: skip
    return at if written else LOST_PAGE


@cfunc
def append_record(
    gate: Address,
    wrote: Address,
    segment: Address,
    file_start: Long,
    queue_end: Address,
    store_timestamp_ms: Long,
    size: Long,
    topic: Address,
    topic_size: Long,
    body: Address,
    body_size: Long,
    properties: Address,
    properties_size: Long,
    hosts: Address,
    queue_id: Long,
    flag: Long,
    sys_flag: Long,
    born_timestamp_ms: Long,
    reconsume_times: Long,
    prepared_transaction_offset: Long,
) -> Flag:
    """Write a record that fits, and update gate, wrote and queue_end; return False for a lost page."""
    at: Long = read_long(wrote, 0)
    hosts_size: Long = host_size(sys_flag & BORN_HOST_V6) + host_size(sys_flag & STORE_HOST_V6)
    clear_behind(segment, at + size)
    write_long(segment, at + 20, next_queue_offset(queue_end, sys_flag))
    write_long(segment, at + 28, file_start + at)
    write_numbers(segment, at, queue_id, flag, sys_flag, reconsume_times, prepared_transaction_offset)
    write_origin(segment, at, sys_flag, born_timestamp_ms, store_timestamp_ms, hosts)
    write_body_at(segment, at, at + 68 + hosts_size, body, body_size)
    write_texts(segment, at + 72 + hosts_size + body_size, topic, topic_size, properties, properties_size)
    if not make_valid(segment, at, size, topic_size > MAX_TOPIC_SIZE):
        return False
    write_long(gate, 8, store_timestamp_ms)
    write_long(wrote, 0, at + size)
    return True


@cfunc
def clear_behind(segment: Address, end: Long) -> None:
    """Clear the eight bytes after a record, so that old bytes are not read as a record."""
    if read_long(segment, end) != 0:
        write_long(segment, end, 0)


@cfunc
def refuses(gate: Address, store_timestamp_ms: Long) -> Long:
    """Return BUSY or LATE, or 0 if the gate is open for this store time."""
    if read_long(gate, 0) != 0:
        return BUSY
    return LATE if store_timestamp_ms < read_long(gate, 8) else 0


@cfunc
def make_valid(segment: Address, at: Long, size: Long, is_v2: Flag) -> Flag:
    """Write magic, then size: only then the bytes are a record. Return False if a page was lost."""
    write_int(segment, at + 4, MAGIC_V2 if is_v2 else MAGIC_V1)
    write_int(segment, at, size)
    return not has_lost_page()


@cfunc
def host_size(is_v6: Long) -> Long:
    return 8 + (V6_EXTRA if is_v6 else 0)


@cfunc
def next_queue_offset(queue_end: Address, sys_flag: Long) -> Long:
    """Return the next queue offset and raise it; prepared and rolled-back messages get 0 and do not."""
    if sys_flag & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT):
        return 0
    queue_offset: Long = read_long(queue_end, 0)
    write_long(queue_end, 0, queue_offset + 1)
    return queue_offset


@cfunc
def write_numbers(
    segment: Address, at: Long, queue_id: Long, flag: Long, sys_flag: Long, reconsumed: Long, prepared_offset: Long
) -> None:
    """Write a record's queue id, flag, sys flag, reconsume times and prepared offset."""
    write_int(segment, at + 12, queue_id)
    write_int(segment, at + 16, flag)
    write_int(segment, at + 36, sys_flag)
    tail: Long = at + 56 + host_size(sys_flag & BORN_HOST_V6) + host_size(sys_flag & STORE_HOST_V6)
    write_int(segment, tail, reconsumed)
    write_long(segment, tail + 4, prepared_offset)


@cfunc
def write_origin(segment: Address, at: Long, sys_flag: Long, born_ms: Long, store_ms: Long, hosts: Address) -> None:
    """Write the times and hosts of a record; `hosts` has the two without a gap."""
    born_size, store_size = host_size(sys_flag & BORN_HOST_V6), host_size(sys_flag & STORE_HOST_V6)
    write_long(segment, at + 40, born_ms)
    copy_bytes(segment, at + 48, hosts, 0, born_size)
    write_long(segment, at + 48 + born_size, store_ms)
    copy_bytes(segment, at + 56 + born_size, hosts, born_size, store_size)


@cfunc
def write_body_at(segment: Address, record: Long, at: Long, body: Address, size: Long) -> None:
    """Write body size and body at `at`, and the CRC in the record's head."""
    write_int(segment, record + 8, body_crc(body, 0, size))
    write_int(segment, at, size)
    copy_bytes(segment, at + 4, body, 0, size)


@cfunc
def write_texts(
    segment: Address, at: Long, topic: Address, topic_size: Long, properties: Address, properties_size: Long
) -> None:
    """Write topic and properties; a long topic has a size of two bytes, in a V2 record."""
    if topic_size > MAX_TOPIC_SIZE:
        write_byte(segment, at, topic_size >> 8)
        at += 1
    write_byte(segment, at, topic_size)
    copy_bytes(segment, at + 1, topic, 0, topic_size)
    at += 1 + topic_size
    write_short(segment, at, properties_size)
    copy_bytes(segment, at + 2, properties, 0, properties_size)


@cfunc
def is_int(value: Long) -> Flag:
    return MIN_INT <= value <= MAX_INT


@cfunc
def record_size(numbers: Matrix, message: Long, body_ends: Longs, property_ends: Longs, topic_ends: Longs) -> Long:
    """Return the size of the record, or -1 if a part is too large for the format."""
    topic = numbers[TOPIC, message]
    topic_size: Long = topic_ends[topic + 1] - topic_ends[topic]
    properties_size: Long = property_ends[message + 1] - property_ends[message]
    body_size: Long = body_ends[message + 1] - body_ends[message]
    is_negative: Flag = min(topic_size, properties_size, body_size) < 0
    if is_negative or topic_size > MAX_TOPIC_SIZE or properties_size > MAX_PROPERTIES_SIZE:
        return -1
    flag = numbers[SYS_FLAG, message]
    hosts_size = host_size(flag & BORN_HOST_V6) + host_size(flag & STORE_HOST_V6)
    return FIXED_SIZE + hosts_size - 16 + topic_size + properties_size + body_size


@cfunc
def take_queue_offset(numbers: Matrix, message: Long, next_queue_offsets: Longs) -> Long:
    """Return the message's queue offset and raise its queue's; prepared and rolled-back messages get 0."""
    if numbers[SYS_FLAG, message] & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT):
        return 0
    queue = numbers[QUEUE, message]
    queue_offset: Long = next_queue_offsets[queue]
    next_queue_offsets[queue] = queue_offset + 1
    return queue_offset


@cfunc
def write_head(
    segment: Address,
    at: Long,
    file_start: Long,
    size: Long,
    hosts: Address,
    numbers: Matrix,
    message: Long,
    next_queue_offsets: Longs,
    columns: Matrix,
    row: Long,
) -> None:
    """Write the fields before the body size, except the CRC."""
    flag = numbers[SYS_FLAG, message]
    queue_offset = take_queue_offset(numbers, message, next_queue_offsets)
    write_int(segment, at, size)
    write_int(segment, at + 4, MAGIC_V1)
    write_long(segment, at + 20, queue_offset)
    write_long(segment, at + 28, file_start + at)
    write_numbers(
        segment, at, numbers[QUEUE_ID, message], numbers[FLAG, message], flag, numbers[RECONSUMED, message],
        numbers[PREPARED_OFFSET, message],
    )  # fmt: skip
    write_long(segment, at + 40, numbers[BORN_TIME, message])
    born_size, store_size = host_size(flag & BORN_HOST_V6), host_size(flag & STORE_HOST_V6)
    pair = numbers[HOSTS, message] * 2 * STORE_HOST_AT
    copy_bytes(segment, at + 48, hosts, pair, born_size)
    write_long(segment, at + 48 + born_size, numbers[STORE_TIME, message])
    copy_bytes(segment, at + 56 + born_size, hosts, pair + STORE_HOST_AT, store_size)
    columns[Column.POSITION, row] = at
    columns[Column.SIZE, row] = size
    columns[Column.BODY_POSITION, row] = at + 72 + born_size + store_size
    columns[Column.QUEUE_ID, row] = numbers[QUEUE_ID, message]
    columns[Column.QUEUE_OFFSET, row] = queue_offset
    columns[Column.LOG_OFFSET, row] = file_start + at
    columns[Column.SYS_FLAG, row] = flag
    columns[Column.STORE_TIMESTAMP_MS, row] = numbers[STORE_TIME, message]


@cfunc
def write_body(segment: Address, bodies: Address, ends: Longs, message: Long, columns: Matrix, row: Long) -> None:
    """Write body size, body, and the CRC, computed while the bytes are in the cache."""
    start, size = ends[message], ends[message + 1] - ends[message]
    at = columns[Column.BODY_POSITION, row]
    write_int(segment, at - 4, size)
    copy_bytes(segment, at, bodies, start, size)
    crc = body_crc(bodies, start, size)
    write_int(segment, columns[Column.POSITION, row] + 8, crc)
    columns[Column.BODY_SIZE, row] = size
    columns[Column.BODY_CRC, row] = crc


@cfunc
def write_topic(segment: Address, topics: Address, ends: Longs, topic: Long, columns: Matrix, row: Long) -> None:
    start, size = ends[topic], ends[topic + 1] - ends[topic]
    at = columns[Column.BODY_POSITION, row] + columns[Column.BODY_SIZE, row]
    write_byte(segment, at, size)
    copy_bytes(segment, at + 1, topics, start, size)
    columns[Column.TOPIC_POSITION, row] = at + 1
    columns[Column.TOPIC_SIZE, row] = size


@cfunc
def write_properties(
    segment: Address, properties: Address, ends: Longs, message: Long, columns: Matrix, row: Long
) -> None:
    start, size = ends[message], ends[message + 1] - ends[message]
    at = columns[Column.TOPIC_POSITION, row] + columns[Column.TOPIC_SIZE, row]
    write_short(segment, at, size)
    copy_bytes(segment, at + 2, properties, start, size)
    columns[Column.PROPERTIES_POSITION, row] = at + 2
    columns[Column.PROPERTIES_SIZE, row] = size
