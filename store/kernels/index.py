"""From records to index entries: hashes of keys, and entries and slots written in the log's order.

1. key_hashes finds UNIQ_KEY and KEYS in the raw properties and hashes "topic#key" for each key, and on request
   "topic#T#tags" (5.4 and later)
2. put_index_entries writes entries, slots and header of one index file until it is full
3. follow_chains checks the chains of the entries

Slots are spread over 20 MB, so each is prefetched some entries before its turn.

Source: IndexService.buildIndex, IndexFile.putKey, IndexHeader (4.9.8, 5.5.0).
"""

from __future__ import annotations

from store.formats import index_page as page
from store.formats.columns import Column
from store.kernels.cython import Address, Bytes, Flag, Long, Longs, Matrix, Writable, cfunc, kernel
from store.kernels.hashing import WORD_MASK, hash_text, to_key_hash
from store.kernels.native import (
    find_either,
    prefetch,
    prefetch_near,
    read_int,
    read_long,
    size_of,
    start_of,
    write_int,
    write_long,
)
from store.kernels.properties import PREFETCH_RECORDS, SPACE, find_values, prefetch_properties

TRANSACTION_ROLLBACK = 0xC
MAX_KEYS_OF_RECORD = 1 << 14
_SEPARATOR = ord(page.KEY_SEPARATOR)
_TAGS_TYPE = ord(page.TAGS_TYPE)

HEADER_SIZE, SLOT_SIZE, ENTRY_SIZE = page.HEADER_SIZE, page.SLOT_SIZE, page.ENTRY_SIZE
MAX_TIME_DIFF_SECONDS, FIRST_INDEX_COUNT = page.MAX_TIME_DIFF_SECONDS, page.FIRST_INDEX_COUNT

# The header's fields in the order of IndexHeader.
BEGIN_TIME, END_TIME, BEGIN_OFFSET, END_OFFSET, SLOT_COUNT, INDEX_COUNT = range(6)
BEGIN_TIME_AT, END_TIME_AT, BEGIN_OFFSET_AT = page.BEGIN_TIME_AT, page.END_TIME_AT, page.BEGIN_OFFSET_AT
END_OFFSET_AT, SLOT_COUNT_AT, INDEX_COUNT_AT = page.END_OFFSET_AT, page.SLOT_COUNT_AT, page.INDEX_COUNT_AT

# Results of follow_chains: the number of entries that do not name their chain's previous entry, the first of them, the
# least and the greatest log offset, and the number of entries with a lower log offset than the entry before.
WRONG_ENTRIES, FIRST_WRONG_ENTRY, LOW_OFFSET, HIGH_OFFSET, FALLING_ENTRIES = range(5)
FOUND_COUNT = 5

_LOOK_AHEAD = 24


@kernel
def key_hashes(
    buffer: Bytes,
    columns: Matrix,
    first: Long,
    count: Long,
    with_tags: Long,
    hashes: Longs,
    records: Longs,
    state: Longs,
) -> Long:
    """Hash the keys of the records first … count - 1; return the number of hashes.

    with_tags        1 adds a record's tags after its keys, as 5.4 and later do; else 0
    hashes, records  filled with each key's hash and record number; at least MAX_KEYS_OF_RECORD places
    state[0]         the record to continue with: `count`, or the first whose keys may not fit
    """
    data = start_of(buffer)
    found = 0
    row = first
    while row < count:
        prefetch_properties(data, columns, row + PREFETCH_RECORDS, count)
        properties = columns[Column.PROPERTIES_SIZE, row]
        # A key takes at least one byte and its separator.
        if found + properties // 2 + 1 > len(hashes):
            break
        if is_indexed(columns, row):
            start = columns[Column.PROPERTIES_POSITION, row]
            tags_at, tags_stop, _, _, uniq_at, uniq_stop, keys_at, keys_stop = find_values(
                data, start, start + properties
            )
            tags_stop = tags_stop if with_tags else tags_at
            found = hash_keys(
                data, columns, row, uniq_at, uniq_stop, keys_at, keys_stop, tags_at, tags_stop, hashes, records, found
            )
        row += 1
    state[0] = row
    return found


@cfunc
def hash_keys(
    buffer: Address,
    columns: Matrix,
    row: Long,
    uniq_at: Long,
    uniq_stop: Long,
    keys_at: Long,
    keys_stop: Long,
    tags_at: Long,
    tags_stop: Long,
    hashes: Longs,
    records: Longs,
    found: Long,
) -> Long:
    """Hash the keys of one record from the positions of its UNIQ_KEY, KEYS and TAGS, in this order.

    TAGS is left out if `tags_at` is `tags_stop`. Return `found` plus the number of hashes.
    """
    if uniq_at < 0 and keys_at < 0 and tags_at == tags_stop:
        return found
    topic_at = columns[Column.TOPIC_POSITION, row]
    topic = hash_text(buffer, topic_at, topic_at + columns[Column.TOPIC_SIZE, row], 0)
    topic = (topic * 31 + _SEPARATOR) & WORD_MASK
    if uniq_at >= 0:
        hashes[found] = to_key_hash(hash_text(buffer, uniq_at, uniq_stop, topic))
        records[found] = row
        found += 1
    at = keys_at
    while 0 <= at < keys_stop:
        end = find_either(buffer, SPACE, SPACE, at, keys_stop)
        if end > at:
            hashes[found] = to_key_hash(hash_text(buffer, at, end, topic))
            records[found] = row
            found += 1
        at = end + 1
    if tags_at < tags_stop:
        topic = (topic * 31 + _TAGS_TYPE) & WORD_MASK
        topic = (topic * 31 + _SEPARATOR) & WORD_MASK
        hashes[found] = to_key_hash(hash_text(buffer, tags_at, tags_stop, topic))
        records[found] = row
        found += 1
    return found


@cfunc
def is_indexed(columns: Matrix, row: Long) -> Flag:
    """Return whether the record may have keys: it has properties, and was not rolled back."""
    is_rolled_back: Flag = columns[Column.SYS_FLAG, row] & TRANSACTION_ROLLBACK == TRANSACTION_ROLLBACK
    return columns[Column.PROPERTIES_SIZE, row] > 0 and not is_rolled_back


@kernel
def put_index_entries(
    index: Writable,
    slot_count: Long,
    entry_capacity: Long,
    hashes: Longs,
    records: Longs,
    start: Long,
    stop: Long,
    columns: Matrix,
    header: Longs,
) -> Long:
    """Put the keys start … stop - 1 into one index file; return `stop`, or the first key without room.

    index   the mapped file, 40 + 4 x slot_count + 20 x entry_capacity bytes; nothing is written past its end
    header  int64 [6], the file's header in the order of IndexHeader; updated here and in the file

    Keys of records before the header's end log offset are in the file already, and are skipped.
    """
    file = start_of(index)
    entries_at = HEADER_SIZE + SLOT_SIZE * slot_count
    capacity = min(entry_capacity, (size_of(index) - entries_at) // ENTRY_SIZE)
    header[INDEX_COUNT] = max(header[INDEX_COUNT], FIRST_INDEX_COUNT)
    at = start
    while at < stop and slot_count > 0 and header[INDEX_COUNT] < capacity:
        if at + _LOOK_AHEAD < stop:
            prefetch_near(file, HEADER_SIZE + SLOT_SIZE * (hashes[at + _LOOK_AHEAD] % slot_count))
        row = records[at]
        log_offset = columns[Column.LOG_OFFSET, row]
        if log_offset >= header[END_OFFSET]:
            put_entry(
                file,
                entries_at,
                slot_count,
                hashes[at],
                log_offset,
                columns[Column.STORE_TIMESTAMP_MS, row],
                header,
            )
        at += 1
    if size_of(index) >= HEADER_SIZE:
        write_header(file, header)
    return at


@cfunc
def put_entry(
    index: Address,
    entries_at: Long,
    slot_count: Long,
    key_hash: Long,
    log_offset: Long,
    store_time_ms: Long,
    header: Longs,
) -> None:
    """Write one entry as the newest of its slot's chain, and update the header."""
    count = header[INDEX_COUNT]
    slot_at = HEADER_SIZE + SLOT_SIZE * (key_hash % slot_count)
    previous = read_int(index, slot_at)
    if previous <= 0 or previous > count:
        previous = 0
        header[SLOT_COUNT] += 1
    entry_at = entries_at + ENTRY_SIZE * count
    write_int(index, entry_at, key_hash)
    write_long(index, entry_at + 4, log_offset)
    write_int(index, entry_at + 12, time_diff_seconds(store_time_ms, header[BEGIN_TIME]))
    write_int(index, entry_at + 16, previous)
    write_int(index, slot_at, count)
    if count <= 1:
        header[BEGIN_OFFSET] = log_offset
        header[BEGIN_TIME] = store_time_ms
    header[INDEX_COUNT] = count + 1
    header[END_OFFSET] = log_offset
    header[END_TIME] = store_time_ms


@cfunc
def time_diff_seconds(store_time_ms: Long, begin_time_ms: Long) -> Long:
    """Return seconds since the file's begin time, limited to 0 … 2^31 - 1; 0 without a begin time."""
    difference = store_time_ms - begin_time_ms
    if begin_time_ms <= 0 or difference <= 0:
        return 0
    return min(difference // 1000, MAX_TIME_DIFF_SECONDS)


@cfunc
def write_header(index: Address, header: Longs) -> None:
    write_long(index, BEGIN_TIME_AT, header[BEGIN_TIME])
    write_long(index, END_TIME_AT, header[END_TIME])
    write_long(index, BEGIN_OFFSET_AT, header[BEGIN_OFFSET])
    write_long(index, END_OFFSET_AT, header[END_OFFSET])
    write_int(index, SLOT_COUNT_AT, header[SLOT_COUNT])
    write_int(index, INDEX_COUNT_AT, header[INDEX_COUNT])


@kernel
def follow_chains(index: Bytes, slot_count: Long, first: Long, count: Long, newest: Writable, found: Longs) -> None:
    """Check that each entry first … count - 1 names the previous entry of its slot's chain.

    first   1, or the `count` of the previous call, with the same `newest` and `found`
    newest  filled with the slots that result from the entries, in the file's format; zeros at first
    found   int64 [FOUND_COUNT], zeros at first: see WRONG_ENTRIES …
    """
    file, slots = start_of(index), start_of(newest)
    entries_at = HEADER_SIZE + SLOT_SIZE * slot_count
    for entry in range(first, count):
        at = entries_at + ENTRY_SIZE * entry
        if entry + _LOOK_AHEAD < count:
            prefetch(slots, SLOT_SIZE * (read_int(file, at + ENTRY_SIZE * _LOOK_AHEAD) % slot_count))
        slot_at = SLOT_SIZE * (read_int(file, at) % slot_count)
        if read_int(file, at + 16) != read_int(slots, slot_at):
            if found[WRONG_ENTRIES] == 0:
                found[FIRST_WRONG_ENTRY] = entry
            found[WRONG_ENTRIES] += 1
        write_int(slots, slot_at, entry)
        log_offset = read_long(file, at + 4)
        if entry == 1 or log_offset < found[LOW_OFFSET]:
            found[LOW_OFFSET] = log_offset
        if entry == 1 or log_offset > found[HIGH_OFFSET]:
            found[HIGH_OFFSET] = log_offset
        if entry > 1 and log_offset < read_long(file, at - ENTRY_SIZE + 4):
            found[FALLING_ENTRIES] += 1
