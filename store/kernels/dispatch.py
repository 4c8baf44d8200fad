"""From records to queue units: each record's queue and tags code, and the units in their order.

1. assign_queues (queue_table.py) finds each record's queue number
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

# The delay of an unknown delay level (ScheduleMessageService.computeDeliverTimestamp).
UNKNOWN_LEVEL_DELAY_MS = 1000


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

    starts has queue_count + 1 places. Records of queue -1 are left out.
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
