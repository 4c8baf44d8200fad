"""The scan of records: boundaries and columns, with the broker's own verdict on every record.

    0          4       8     12        16     20            28          36        40
    | size     | magic | crc | queue   | flag | queue offset| log offset| sys flag| born time …
    48 born host (8 or 20)  56 store time  64 store host (8 or 20)  72 reconsume  76 prepared offset
    84 body size, body; topic size (V1: byte, V2: short), topic; properties size (short), properties

The steps for one record, in the broker's order:

1. Fewer than 8 bytes left, or 8 zero bytes: nothing was written here (END; LIMIT when no byte is left).
2. The blank's magic ends the segment, whatever size is before it. An unknown magic is damage, unless a DLedger entry
   begins here: its header of 48 bytes is skipped, and its body is the record. An entry of a newer DLedger without a
   message is skipped. DLedger's own blank is int -1, int size.
3. The fixed fields, then each length against the bytes left and against the size.
4. A DELAY level in the schedule topic must be a number.
5. The sum of the parts must be the size.
6. On request the body's CRC.

The size reported with damage is the broker's: the record's own size if only the sum is wrong (dispatch skips that many
bytes), else -1. Each read is below `limit` by the checks of the steps before.

Source: CommitLog.checkMessageAndReturnSize (4.9.8; 5.3.3 adds V2 and a check of the size against the bytes left),
DLedgerCommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

from store.formats.columns import Column, DamageReason, ScanOutcome
from store.kernels.cython import Address, Bytes, Flag, Long, Longs, Matrix, cfunc, kernel
from store.kernels.native import (
    body_crc,
    find_head,
    prefetch,
    read_byte,
    read_int,
    read_long,
    read_short,
    size_of,
    start_of,
)
from store.kernels.properties import find_values, parse_int

FULL = int(ScanOutcome.FULL)
LIMIT = int(ScanOutcome.LIMIT)
BLANK = int(ScanOutcome.BLANK)
END = int(ScanOutcome.END)
DAMAGE = int(ScanOutcome.DAMAGE)
WITHOUT_MESSAGE = -1

SOUND = int(DamageReason.NONE)
BAD_MAGIC = int(DamageReason.BAD_MAGIC)
BAD_SIZE = int(DamageReason.BAD_SIZE)
SIZE_BEYOND_SEGMENT = int(DamageReason.SIZE_BEYOND_SEGMENT)
BODY_BEYOND = int(DamageReason.BODY_BEYOND)
NEGATIVE_TOPIC = int(DamageReason.NEGATIVE_TOPIC)
TOPIC_BEYOND = int(DamageReason.TOPIC_BEYOND)
PROPERTIES_BEYOND = int(DamageReason.PROPERTIES_BEYOND)
LENGTH_MISMATCH = int(DamageReason.LENGTH_MISMATCH)
BAD_DELAY_LEVEL = int(DamageReason.BAD_DELAY_LEVEL)
BAD_CRC = int(DamageReason.BAD_CRC)

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477
MAGIC_BLANK = -875286124
assert MAGIC_V1 >> 8 == MAGIC_V2 >> 8

HEAD_SIZE, FIXED_SIZE = 8, 91
ENTRY_MAGIC, ENTRY_OF_NOTHING, ENTRY_OF_GROUP = 1, 2, 3
ENTRY_HEADER_SIZE, ENTRY_BODY_SIZE_AT = 48, 44
BORN_HOST_V6, STORE_HOST_V6 = 0x10, 0x20
V6_EXTRA = 12

SCHEDULE_TOPIC = b"SCHEDULE_TOPIC_XXXX"
SCHEDULE_TOPIC_SIZE = len(SCHEDULE_TOPIC)
_SCHEDULE_1 = int.from_bytes(SCHEDULE_TOPIC[0:8], "big")
_SCHEDULE_2 = int.from_bytes(SCHEDULE_TOPIC[8:16], "big")
_SCHEDULE_3 = int.from_bytes(SCHEDULE_TOPIC[11:19], "big")
assert SCHEDULE_TOPIC_SIZE == 19

# The places of `state`.
NEXT_POSITION, OUTCOME, REASON, SIZE = range(4)

_PREFETCH_RECORDS = 6
_LINE_SIZE = 64


@kernel
def scan_records(
    buffer: Bytes,
    position: Long,
    limit: Long,
    accept_v2: Flag,
    check_crc: Flag,
    columns: Matrix,
    state: Longs,
) -> Long:
    """Fill `columns` with the records from `position` on; return their number.

    buffer     the segment; its readable bytes end at `limit`
    accept_v2  follow 5.3.3 instead of 4.9.8
    columns    int64 [len(COLUMN_NAMES), capacity], rows in the order of COLUMN_NAMES
    state      int64 [8]: next position, ScanOutcome, DamageReason, the broker's size of a damaged record or the blank
    """
    data = start_of(buffer)
    capacity = columns.shape[1]
    limit = min(limit, size_of(buffer))
    position = max(position, 0)
    count = 0
    outcome, reason, size = FULL, SOUND, 0
    while count < capacity:
        outcome, reason, size = read_head(data, position, limit, accept_v2)
        if reason == BAD_MAGIC:
            outcome, reason, size = read_entry_head(data, position, limit, accept_v2)
            if outcome == WITHOUT_MESSAGE:
                position += size
                continue
            position += ENTRY_HEADER_SIZE if outcome == FULL else 0
        if outcome != FULL:
            break
        reason, size = read_record(data, position, limit, accept_v2, columns, count)
        if reason == SOUND and check_crc:
            reason, size = check_body(data, columns, count, size)
        if reason != SOUND:
            outcome = DAMAGE
            break
        prefetch_record(data, position + _PREFETCH_RECORDS * size, columns[Column.TOPIC_POSITION, count] - position)
        position += size
        count += 1
    state[NEXT_POSITION] = position
    state[OUTCOME] = outcome
    state[REASON] = reason
    state[SIZE] = size
    return count


@cfunc
def prefetch_record(buffer: Address, position: Long, topic_at: Long) -> None:
    """Prefetch the head and topic of a record ahead, supposing that records have about the same size."""
    prefetch(buffer, position)
    prefetch(buffer, position + _LINE_SIZE)
    prefetch(buffer, position + topic_at)


@cfunc
def read_head(buffer: Address, position: Long, limit: Long, accept_v2: Flag) -> tuple[Long, Long, Long]:
    """Return outcome, reason and size by the first 8 bytes; FULL: a record may begin here."""
    left = limit - position
    if left < HEAD_SIZE:
        return (LIMIT if left <= 0 else END), SOUND, 0
    size = read_int(buffer, position)
    magic = read_int(buffer, position + 4)
    if magic == MAGIC_V1 or (accept_v2 and magic == MAGIC_V2):
        return FULL, SOUND, size
    if magic == MAGIC_BLANK:
        return BLANK, SOUND, size
    if magic == 0 and size == 0:
        return END, SOUND, 0
    return DAMAGE, BAD_MAGIC, -1


@cfunc
def read_entry_head(buffer: Address, position: Long, limit: Long, accept_v2: Flag) -> tuple[Long, Long, Long]:
    """Return outcome, reason and size by a DLedger entry's header; FULL: its body may be a record.

    An entry's size includes the header, and its body has the magic of a record. WITHOUT_MESSAGE: it has no message.
    """
    left = limit - position
    magic = read_int(buffer, position)
    size = read_int(buffer, position + 4)
    if magic == -1 and size >= HEAD_SIZE and (left < 2 * HEAD_SIZE or read_long(buffer, position + HEAD_SIZE) == 0):
        return BLANK, SOUND, size
    if magic in (ENTRY_OF_NOTHING, ENTRY_OF_GROUP):
        return read_other_entry(buffer, position, left, size)
    if magic != ENTRY_MAGIC or size < ENTRY_HEADER_SIZE + FIXED_SIZE:
        return DAMAGE, BAD_MAGIC, -1
    if left < ENTRY_HEADER_SIZE + HEAD_SIZE:
        return DAMAGE, SIZE_BEYOND_SEGMENT, -1
    if read_int(buffer, position + ENTRY_BODY_SIZE_AT) != size - ENTRY_HEADER_SIZE:
        return DAMAGE, BAD_MAGIC, -1
    body_magic = read_int(buffer, position + ENTRY_HEADER_SIZE + 4)
    if body_magic == MAGIC_V1 or (accept_v2 and body_magic == MAGIC_V2):
        return FULL, SOUND, size
    return DAMAGE, BAD_MAGIC, -1


@cfunc
def read_other_entry(buffer: Address, position: Long, left: Long, size: Long) -> tuple[Long, Long, Long]:
    """Return outcome, reason and size by the header of a newer DLedger's entry; its body is no record.
    No other field has the entry's size, so all fields are checked against the values that an entry may have.
    """
    if size < ENTRY_HEADER_SIZE:
        return DAMAGE, BAD_MAGIC, -1
    if left < ENTRY_HEADER_SIZE:
        return DAMAGE, SIZE_BEYOND_SEGMENT, -1
    index, place = read_long(buffer, position + 8), read_long(buffer, position + 24)
    # Channel and chain CRC, body CRC: no version of DLedger writes them.
    unused = read_long(buffer, position + 32) | read_int(buffer, position + 40)
    if read_int(buffer, position + ENTRY_BODY_SIZE_AT) != size - ENTRY_HEADER_SIZE or unused != 0:
        return DAMAGE, BAD_MAGIC, -1
    if index < 0 or place < position:
        return DAMAGE, BAD_MAGIC, -1
    if size > left:
        return DAMAGE, SIZE_BEYOND_SEGMENT, -1
    return WITHOUT_MESSAGE, SOUND, size


@cfunc
def read_record(
    buffer: Address, position: Long, limit: Long, accept_v2: Flag, columns: Matrix, row: Long
) -> tuple[Long, Long]:
    """Check the lengths of the record at `position`, write its columns; return reason and broker's size."""
    left = limit - position
    size = read_int(buffer, position)
    if size < 0:
        return BAD_SIZE, -1
    if left < FIXED_SIZE or (accept_v2 and size > left):
        return SIZE_BEYOND_SEGMENT, -1
    flag = read_int(buffer, position + 36)
    born_extra = V6_EXTRA if flag & BORN_HOST_V6 else 0
    hosts_extra = born_extra + (V6_EXTRA if flag & STORE_HOST_V6 else 0)
    reason, body_at, body, topic_at, topic, properties_at, properties = read_lengths(
        buffer, position + 84 + hosts_extra, limit, size, read_int(buffer, position + 4) == MAGIC_V2
    )
    if reason != SOUND:
        return (SIZE_BEYOND_SEGMENT if size > left else reason), -1
    is_delayed: Flag = properties > 0 and topic == SCHEDULE_TOPIC_SIZE and is_schedule_topic(buffer, topic_at)
    if is_delayed and not is_delay_level_valid(buffer, properties_at, properties_at + properties):
        return BAD_DELAY_LEVEL, -1
    if properties_at + properties - position != size:
        return sum_reason(size, left, body, hosts_extra), size
    columns[Column.POSITION, row] = position
    columns[Column.SIZE, row] = size
    columns[Column.BODY_POSITION, row] = body_at
    columns[Column.BODY_SIZE, row] = body
    columns[Column.TOPIC_POSITION, row] = topic_at
    columns[Column.TOPIC_SIZE, row] = topic
    columns[Column.PROPERTIES_POSITION, row] = properties_at
    columns[Column.PROPERTIES_SIZE, row] = properties
    columns[Column.QUEUE_ID, row] = read_int(buffer, position + 12)
    columns[Column.QUEUE_OFFSET, row] = read_long(buffer, position + 20)
    columns[Column.LOG_OFFSET, row] = read_long(buffer, position + 28)
    columns[Column.SYS_FLAG, row] = flag
    columns[Column.STORE_TIMESTAMP_MS, row] = read_long(buffer, position + 48 + 8 + born_extra)
    columns[Column.BODY_CRC, row] = read_int(buffer, position + 8)
    return SOUND, size


@cfunc
def read_lengths(
    buffer: Address, at: Long, limit: Long, size: Long, is_v2: Flag
) -> tuple[Long, Long, Long, Long, Long, Long, Long]:
    """Return reason, then position and size of body, topic and properties; the body size is at `at`.

    Each length is compared with the bytes left. Topic and properties are compared with the record's size too: the
    broker reads them into an array of that size. Negative sizes of body and properties count as 0.
    """
    if limit - at < 4:
        return no_lengths(BODY_BEYOND)
    body_at = at + 4
    body = max(read_int(buffer, at), 0)
    if body > limit - body_at:
        return no_lengths(BODY_BEYOND)
    at = body_at + body
    length_size = 2 if is_v2 else 1
    if limit - at < length_size:
        return no_lengths(TOPIC_BEYOND)
    topic = read_topic_size(buffer, at, is_v2)
    topic_at = at + length_size
    if topic < 0:
        return no_lengths(NEGATIVE_TOPIC)
    if topic > limit - topic_at or topic > size:
        return no_lengths(TOPIC_BEYOND)
    at = topic_at + topic
    if limit - at < 2:
        return no_lengths(PROPERTIES_BEYOND)
    properties_at = at + 2
    properties = max(read_short(buffer, at), 0)
    if properties > limit - properties_at or properties > size:
        return no_lengths(PROPERTIES_BEYOND)
    return SOUND, body_at, body, topic_at, topic, properties_at, properties


@cfunc
def no_lengths(reason: Long) -> tuple[Long, Long, Long, Long, Long, Long, Long]:
    return reason, 0, 0, 0, 0, 0, 0


@cfunc
def read_topic_size(buffer: Address, at: Long, is_v2: Flag) -> Long:
    """Return a signed byte in V1, a signed short in V2."""
    if is_v2:
        return read_short(buffer, at)
    size = read_byte(buffer, at)
    return size - 256 if size > 127 else size


@cfunc
def sum_reason(size: Long, left: Long, body: Long, hosts_extra: Long) -> Long:
    """Return the reason for parts that do not add up to the size."""
    if size > left:
        return SIZE_BEYOND_SEGMENT
    if size < FIXED_SIZE + hosts_extra:
        return BAD_SIZE
    return BODY_BEYOND if body > size else LENGTH_MISMATCH


@cfunc
def is_schedule_topic(buffer: Address, at: Long) -> Flag:
    """Return whether the 19 bytes at `at` are SCHEDULE_TOPIC_XXXX."""
    return (
        read_long(buffer, at) == _SCHEDULE_1
        and read_long(buffer, at + 8) == _SCHEDULE_2
        and read_long(buffer, at + 11) == _SCHEDULE_3
    )


@cfunc
def is_delay_level_valid(buffer: Address, start: Long, stop: Long) -> Flag:
    """Return whether the properties have no DELAY, or one that Integer.parseInt accepts."""
    _, _, level_at, level_stop, _, _, _, _ = find_values(buffer, start, stop)
    if level_at < 0:
        return True
    valid, _ = parse_int(buffer, level_at, level_stop)
    return valid


@cfunc
def check_body(buffer: Address, columns: Matrix, row: Long, size: Long) -> tuple[Long, Long]:
    """Return reason and size after the body's CRC; an empty body is not checked."""
    body = columns[Column.BODY_SIZE, row]
    if body > 0 and body_crc(buffer, columns[Column.BODY_POSITION, row], body) != columns[Column.BODY_CRC, row]:
        return BAD_CRC, -1
    return SOUND, size


@kernel
def read_records(buffer: Bytes, places: Longs, sizes: Longs, columns: Matrix) -> Long:
    """Fill `columns` with the records at these places up to an unsound one; returns how many.

    Each size is that of a record, and inside of the buffer.
    """
    data, count = start_of(buffer), len(places)
    for row in range(count):
        place, size = places[row], sizes[row]
        if row + _PREFETCH_RECORDS < count:
            prefetch_record(data, places[row + _PREFETCH_RECORDS], 0)
        outcome, reason, found = read_head(data, place, place + size, True)
        if outcome != FULL or found != size:
            return row
        reason, _ = read_record(data, place, place + size, True, columns, row)
        if reason != SOUND or check_body(data, columns, row, size)[0] != SOUND:
            return row
    return count


@kernel
def find_record_start(
    buffer: Bytes, position: Long, limit: Long, file_start: Long, accept_v2: Flag, columns: Matrix
) -> Long:
    """Return the position of the first sound record from `position` on with its own log offset, or -1.

    Used to continue after damage, and to divide a segment among threads. `columns` needs room for one record, and holds
    its columns afterwards. A copy of a record inside of a message has another log offset, so it is not found.
    """
    data = start_of(buffer)
    limit = min(limit, size_of(buffer))
    at = max(position, 0)
    while limit - at >= FIXED_SIZE:
        magic_at = find_magic(data, at + 4, limit, accept_v2)
        if magic_at < 0:
            return -1
        at = magic_at - 4
        if limit - at < FIXED_SIZE:
            return -1
        if read_long(data, at + 28) == file_start + at:
            reason, _ = read_record(data, at, limit, accept_v2, columns, 0)
            if reason == SOUND:
                return at
        at += 1
    return -1


@cfunc
def find_magic(buffer: Address, start: Long, stop: Long, accept_v2: Flag) -> Long:
    """Return the first position of an accepted magic, or -1."""
    at = find_head(buffer, MAGIC_V1, start, stop)
    while at >= 0:
        magic = read_int(buffer, at)
        if magic == MAGIC_V1 or (accept_v2 and magic == MAGIC_V2):
            return at
        at = find_head(buffer, MAGIC_V1, at + 1, stop)
    return -1
