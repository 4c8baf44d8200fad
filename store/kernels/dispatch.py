"""From records to queue units: each record's queue and tags code, and the units in their order.

1. assign_queues finds each record's queue number, by a hash table over (topic bytes, queue id)
2. tags_codes computes the hash of the tags, or the deliver time of a delayed message
3. order_by_queue sorts the records by queue, in the log's order inside of each
4. pass_repeats finds each queue's first record without a unit
5. write_following_units writes units that can simply be appended, for many queues; find_break and write_units do it
   for one queue
6. first_unit_between finds a unit that points into a range of the log
7. count_leading_units counts the units of a queue with few

Source: CommitLogDispatcherBuildConsumeQueue, CommitLog.checkMessageAndReturnSize, ConsumeQueue (4.9.8).
"""

from __future__ import annotations

from store.formats.columns import Column
from store.formats.queue_unit import MAX_EXT_ADDRESS
from store.kernels.cython import Address, Bytes, Flag, Long, Longs, Matrix, Writable, cfunc, kernel, short_kernel
from store.kernels.hashing import hash_text, to_int
from store.kernels.native import (
    bytes_equal,
    copy_bytes,
    prefetch,
    read_byte,
    read_int,
    read_long,
    size_of,
    start_of,
    write_int,
    write_long,
)
from store.kernels.properties import PREFETCH_RECORDS, find_values, parse_int, prefetch_properties
from store.kernels.scan import SCHEDULE_TOPIC_SIZE, is_schedule_topic

UNIT_SIZE = 20
PRE_BLANK_SIZE = 0x7FFFFFFF
MAX_LONG = (1 << 63) - 1
TRANSACTION_MASK = 0xC
TRANSACTION_COMMIT = 0x8
NO_QUEUE = -1
EMPTY = -1

# The rows of the `queues` matrix. QUEUE_FOLLOWER is the queue of the record that followed this queue's last one:
# producers send to their queues in turn, so it is likely to follow again.
QUEUE_TOPIC_AT, QUEUE_TOPIC_SIZE, QUEUE_ID, QUEUE_HASH, QUEUE_FOLLOWER = range(5)
QUEUE_ROWS = 5

# Assigning a record takes 5 ns, and a cache line from memory 100 ns.
_TOPICS_AHEAD = 32
_HASH_START = 0x297A2D39
_HASH_PRIME = 0x2C1B3C6D
_HASH_MASK = 0x7FFFFFFF
# The delay of an unknown delay level (ScheduleMessageService.computeDeliverTimestamp).
UNKNOWN_LEVEL_DELAY_MS = 1000


@kernel
def assign_queues(
    buffer: Bytes,
    columns: Matrix,
    start: Long,
    count: Long,
    queued_only: Flag,
    names: Writable,
    queues: Matrix,
    table: Longs,
    used: Longs,
    slots: Longs,
) -> Long:
    """Fill slots[start … count - 1] with queue numbers; return `count`, or the row of a new queue without room.

    queued_only  give NO_QUEUE to prepared and rolled-back messages, which are in no consumer's queue
    names        the known topics' bytes, one after another, and room
    queues       int64 [QUEUE_ROWS, known queues and room]; its followers are updated
    table        int64 [a power of two, twice the queues with room]: queue numbers by hash, EMPTY elsewhere
    used         int64 [2]: the known queues, and their bytes in `names`
    """
    data = start_of(buffer)
    name_bytes = start_of(names)
    last = NO_QUEUE
    for row in range(start, count):
        if row + _TOPICS_AHEAD < count:
            prefetch(data, columns[Column.TOPIC_POSITION, row + _TOPICS_AHEAD])
        transaction = columns[Column.SYS_FLAG, row] & TRANSACTION_MASK
        if queued_only and transaction not in (0, TRANSACTION_COMMIT):
            slots[row] = NO_QUEUE
            continue
        at, size, queue_id = (
            columns[Column.TOPIC_POSITION, row],
            columns[Column.TOPIC_SIZE, row],
            columns[Column.QUEUE_ID, row],
        )
        number: Long = queues[QUEUE_FOLLOWER, last] if last != NO_QUEUE else NO_QUEUE
        if number == NO_QUEUE or not is_queue(data, at, size, queue_id, name_bytes, queues, number):
            number = find_queue(data, at, size, queue_id, name_bytes, queues, table)
            if number == NO_QUEUE:
                if used[0] == queues.shape[1] or used[1] + size > size_of(names):
                    return row
                number = add_queue(data, at, size, queue_id, name_bytes, queues, table, used)
            if last != NO_QUEUE:
                queues[QUEUE_FOLLOWER, last] = number
        slots[row] = last = number
    return count


@cfunc
def add_queue(
    buffer: Address, at: Long, size: Long, queue_id: Long, names: Address, queues: Matrix, table: Longs, used: Longs
) -> Long:
    """Give the queue the next number, and return it."""
    number: Long = used[0]
    copy_bytes(names, used[1], buffer, at, size)
    queues[QUEUE_TOPIC_AT, number] = used[1]
    queues[QUEUE_TOPIC_SIZE, number] = size
    queues[QUEUE_ID, number] = queue_id
    queues[QUEUE_HASH, number] = queue_hash(buffer, at, size, queue_id)
    enter_queue(queues, table, number)
    used[0] = number + 1
    used[1] += size
    return number


@kernel
def enter_queues(queues: Matrix, table: Longs, count: Long) -> None:
    """Enter the first `count` queues into an empty table."""
    for number in range(count):
        enter_queue(queues, table, number)


@cfunc
def enter_queue(queues: Matrix, table: Longs, number: Long) -> None:
    mask = len(table) - 1
    place = queues[QUEUE_HASH, number] & mask
    while table[place] != EMPTY:
        place = (place + 1) & mask
    table[place] = number


@cfunc
def find_queue(
    buffer: Address, at: Long, size: Long, queue_id: Long, names: Address, queues: Matrix, table: Longs
) -> Long:
    """Return the number of the queue, or NO_QUEUE. The search ends, as the table has an empty place."""
    mask = len(table) - 1
    place = queue_hash(buffer, at, size, queue_id) & mask
    while table[place] != EMPTY:
        number: Long = table[place]
        if is_queue(buffer, at, size, queue_id, names, queues, number):
            return number
        place = (place + 1) & mask
    return NO_QUEUE


@cfunc
def is_queue(
    buffer: Address, at: Long, size: Long, queue_id: Long, names: Address, queues: Matrix, number: Long
) -> Flag:
    if queues[QUEUE_ID, number] != queue_id or queues[QUEUE_TOPIC_SIZE, number] != size:
        return False
    return bytes_equal(buffer, at, names, queues[QUEUE_TOPIC_AT, number], size)


@cfunc
def queue_hash(buffer: Address, at: Long, size: Long, queue_id: Long) -> Long:
    """Return the hash of the topic's bytes and the queue id: eight bytes a step, the last may overlap."""
    value = mix(_HASH_START, queue_id)
    if size < 8:
        for place in range(at, at + size):
            value = mix(value, read_byte(buffer, place))
        return value
    for place in range(at, at + size - 8, 8):
        value = mix(value, read_long(buffer, place))
    return mix(value, read_long(buffer, at + size - 8))


@cfunc
def mix(value: Long, word: Long) -> Long:
    """Return one step of the hash; value and result are 0 … 2^31 - 1, so that no product exceeds 2^63."""
    value = (value ^ (word & _HASH_MASK)) * _HASH_PRIME + (word >> 32)
    return (value ^ (value >> 29)) & _HASH_MASK


@kernel
def tags_codes(buffer: Bytes, columns: Matrix, count: Long, delay_levels_ms: Longs, codes: Longs) -> None:
    """Fill codes[0 … count - 1] with the tags codes of the records.

    delay_levels_ms  delay of each level, level 1 first; -1 for a level that is not configured
    """
    data = start_of(buffer)
    for row in range(count):
        prefetch_properties(data, columns, row + PREFETCH_RECORDS, count)
        start = columns[Column.PROPERTIES_POSITION, row]
        tags_at, tags_stop, delay_at, delay_stop, _, _, _, _ = find_values(
            data, start, start + columns[Column.PROPERTIES_SIZE, row]
        )
        codes[row] = tags_code(data, columns, row, tags_at, tags_stop, delay_at, delay_stop, delay_levels_ms)


@cfunc
def tags_code(
    buffer: Address,
    columns: Matrix,
    row: Long,
    tags_at: Long,
    tags_stop: Long,
    delay_at: Long,
    delay_stop: Long,
    delay_levels_ms: Longs,
) -> Long:
    """Return one record's tags code, from the positions of its TAGS and DELAY; -1 for an absent one."""
    topic_at, topic_size = columns[Column.TOPIC_POSITION, row], columns[Column.TOPIC_SIZE, row]
    is_delayed: Flag = delay_at >= 0 and topic_size == SCHEDULE_TOPIC_SIZE and is_schedule_topic(buffer, topic_at)
    if is_delayed:
        level = delay_level(buffer, delay_at, delay_stop, len(delay_levels_ms))
        if level > 0:
            deliver_time_ms: Long = columns[Column.STORE_TIMESTAMP_MS, row] + delay_of_level(level, delay_levels_ms)
            return deliver_time_ms
    return to_int(hash_text(buffer, tags_at, tags_stop, 0)) if tags_at >= 0 else 0


@cfunc
def delay_level(buffer: Address, start: Long, stop: Long, max_level: Long) -> Long:
    """Return the level, at most `max_level`; 0 or less is no delay."""
    valid, level = parse_int(buffer, start, stop)
    return min(level, max_level) if valid else 0


@cfunc
def delay_of_level(level: Long, delay_levels_ms: Longs) -> Long:
    delay = delay_levels_ms[level - 1]
    return delay if delay >= 0 else UNKNOWN_LEVEL_DELAY_MS


@kernel
def order_by_queue(slots: Longs, count: Long, queue_count: Long, order: Longs, starts: Longs) -> None:
    """Sort record numbers by queue, in log order: queue q's are order[starts[q] … starts[q + 1] - 1].

    starts has queue_count + 1 places. Records of NO_QUEUE are left out.
    """
    for queue in range(queue_count + 1):
        starts[queue] = 0
    for row in range(count):
        if slots[row] >= 0:
            starts[slots[row] + 1] += 1
    for queue in range(queue_count):
        starts[queue + 1] += starts[queue]
    for row in range(count):
        if slots[row] >= 0:
            order[starts[slots[row]]] = row
            starts[slots[row]] += 1
    for queue in range(queue_count, 0, -1):
        starts[queue] = starts[queue - 1]
    starts[0] = 0


@kernel
def write_units(
    units: Writable, position: Long, order: Longs, start: Long, stop: Long, columns: Matrix, codes: Longs
) -> Long:
    """Write the units of records order[start … stop - 1] from `position`; return the position after them.

    Stop early if a unit does not fit.
    """
    target = start_of(units)
    at = max(position, 0)
    for place in range(start, stop):
        if at > size_of(units) - UNIT_SIZE:
            break
        write_unit(target, at, columns, codes, order[place])
        at += UNIT_SIZE
    return at


@cfunc
def write_unit(target: Address, at: Long, columns: Matrix, codes: Longs, row: Long) -> None:
    """Write the unit of one record at `at`."""
    write_long(target, at, columns[Column.LOG_OFFSET, row])
    write_int(target, at + 8, columns[Column.SIZE, row])
    write_long(target, at + 12, codes[row])


@kernel
def write_following_units(
    order: Longs,
    firsts: Longs,
    stops: Longs,
    count: Long,
    columns: Matrix,
    codes: Longs,
    queue_offsets: Longs,
    ends: Longs,
    units: Writable,
    breaks: Longs,
) -> None:
    """Write the units of `count` queues' records, for each queue up to the place that find_break finds.

    firsts, stops        per queue, the places in `order` of its records
    queue_offsets, ends  per queue, its next queue offset, and the log offset after the records with a unit
    units                filled with each record's unit at UNIT_SIZE times its place in `order`
    breaks               filled with the first place per queue whose unit is not written
    """
    target = start_of(units)
    room: Long = size_of(units) // UNIT_SIZE
    index: Long
    for index in range(count):
        expected: Long = queue_offsets[index]
        end: Long = ends[index]
        place: Long = max(firsts[index], 0)
        stop: Long = min(stops[index], room)
        while place < stop and follows(columns, order[place], expected, end):
            row: Long = order[place]
            write_unit(target, UNIT_SIZE * place, columns, codes, row)
            end = columns[Column.LOG_OFFSET, row] + columns[Column.SIZE, row]
            expected += 1
            place += 1
        breaks[index] = place


@kernel
def pass_repeats(
    order: Longs, starts: Longs, queues: Longs, count: Long, columns: Matrix, ends: Longs, firsts: Longs
) -> Long:
    """Pass over each queue's first records with units; return the number of queues with other records.
    queues  the numbers of `count` queues; after the call, queues with other records come first, in the same order
    ends    per place in `queues`, the log offset after the records with a unit
    firsts  filled with the place in `order` of the first record that is no repeat, for those queues

    A record is a repeat if it ends at or before its queue's end. A sum beyond a long is negative in a broker, and so a
    repeat. Records after the first other one are left to the broker's rules, as the end has moved by then.
    """
    kept: Long = 0
    index: Long
    for index in range(count):
        queue: Long = queues[index]
        end: Long = ends[index]
        place: Long = starts[queue]
        stop: Long = starts[queue + 1]
        while place < stop:
            row: Long = order[place]
            log_offset: Long = columns[Column.LOG_OFFSET, row]
            size: Long = columns[Column.SIZE, row]
            if log_offset <= MAX_LONG - size and log_offset + size > end:
                break
            place += 1
        if place < stop:
            queues[kept] = queue
            firsts[kept] = place
            kept += 1
    return kept


@kernel
def find_break(
    order: Longs, start: Long, stop: Long, columns: Matrix, queue_offset: Long, max_log_offset: Long
) -> Long:
    """Return the first place in order[start … stop - 1] that cannot simply be appended, or `stop`.

    A record can be appended if its queue offset is the queue's next, beginning with `queue_offset`. It must also end
    past the records with a unit, beginning with `max_log_offset`. The broker's rules decide on all others, also on an
    end beyond a long.
    """
    expected, end = queue_offset, max_log_offset
    for place in range(start, stop):
        row = order[place]
        if not follows(columns, row, expected, end):
            return place
        expected += 1
        end = columns[Column.LOG_OFFSET, row] + columns[Column.SIZE, row]
    return stop


@cfunc
def follows(columns: Matrix, row: Long, queue_offset: Long, end: Long) -> Flag:
    """Return whether the record has this queue offset, and ends after `end` at an offset that is a long."""
    log_offset, size = columns[Column.LOG_OFFSET, row], columns[Column.SIZE, row]
    is_next: Flag = columns[Column.QUEUE_OFFSET, row] == queue_offset
    return is_next and 0 <= log_offset <= MAX_LONG - size and log_offset + size > end


@kernel
def first_unit_between(units: Bytes, count: Long, low: Long, high: Long) -> Long:
    """Return the number of the first unit that points to log offsets low … high - 1; `count` without one.

    Units 0 … count - 1 are read. A unit without a positive size points nowhere, nor does a pre-blank one.
    """
    source = start_of(units)
    count = min(count, size_of(units) // UNIT_SIZE)
    number: Long
    for number in range(count):
        at: Long = number * UNIT_SIZE
        log_offset: Long = read_long(source, at)
        size: Long = read_int(source, at + 8)
        is_pre_blank: Flag = log_offset == 0 and size == PRE_BLANK_SIZE and read_long(source, at + 12) == 0
        if low <= log_offset < high and size > 0 and not is_pre_blank:
            return number
    return count


@short_kernel
def count_leading_units(page: Bytes, ends: Longs) -> Long:
    """Return the number of units at a page's beginning; 0 if they do not show their queue's end.

    They do not if all are written, or a written one follows an unwritten one. Nor do they if one has an extension
    address, or the first is pre-blank.

    ends  filled with the greatest log offset of a unit, and the log offset after the last unit's record
    """
    source = start_of(page)
    count: Long = size_of(page) // UNIT_SIZE
    leading: Long = 0
    newest: Long = -1
    number: Long
    for number in range(count):
        at: Long = number * UNIT_SIZE
        log_offset: Long = read_long(source, at)
        size: Long = read_int(source, at + 8)
        if log_offset < 0 or size <= 0:
            continue
        tags_code: Long = read_long(source, at + 12)
        is_pre_blank: Flag = log_offset == 0 and size == PRE_BLANK_SIZE and tags_code == 0
        if number > leading or tags_code <= MAX_EXT_ADDRESS or (number == 0 and is_pre_blank):
            return 0
        leading = number + 1
        newest = max(newest, log_offset)
        ends[1] = log_offset + size
    ends[0] = newest
    return leading if leading < count else 0
