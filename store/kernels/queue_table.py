"""The numbers of queues, by a hash table over (topic bytes, queue id).

QueueTable (store/structures/consumequeue/numbering.py) holds the arrays, and makes room in them.
"""

from __future__ import annotations

from store.formats.columns import Column
from store.kernels.cython import Address, Bytes, Flag, Long, Longs, Matrix, Writable, cfunc, kernel
from store.kernels.native import bytes_equal, copy_bytes, prefetch, read_byte, read_long, size_of, start_of

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
    """Fill slots[start … count - 1] with queue numbers; return `count`.

    Without room for a new queue return its row: the slots before are filled.

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
