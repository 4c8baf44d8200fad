"""From records to index entries: hashes of their keys, and entries and slots written in the log's order.

1. key_hashes finds UNIQ_KEY and KEYS in the raw properties and hashes "topic#key" for each key.
2. put_index_entries writes entries, slots and header of one index file until it is full.
3. follow_chains reads them again, and says whether they hold together.

A slot is anywhere in 20 MB, so it is asked for some entries before its turn.

Source: IndexService.buildIndex, IndexFile.putKey, IndexHeader (4.9.8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from store.formats import index_page as page
from store.kernels.hashing import WORD_MASK, hash_text, to_key_hash
from store.kernels.memory import find_either, prefetch, read_int, read_long, write_int, write_long
from store.kernels.properties import KEYS, PREFETCH_RECORDS, SPACE, UNIQ_KEY, find_values, prefetch_properties

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

TRANSACTION_ROLLBACK = 0xC
MAX_KEYS_OF_RECORD = 1 << 14
_SEPARATOR = ord(page.KEY_SEPARATOR)

HEADER_SIZE, SLOT_SIZE, ENTRY_SIZE = page.HEADER_SIZE, page.SLOT_SIZE, page.ENTRY_SIZE
MAX_TIME_DIFF_SECONDS, FIRST_INDEX_COUNT = page.MAX_TIME_DIFF_SECONDS, page.FIRST_INDEX_COUNT

# The header's fields in the order of IndexHeader.
BEGIN_TIME, END_TIME, BEGIN_OFFSET, END_OFFSET, SLOT_COUNT, INDEX_COUNT = range(6)
BEGIN_TIME_AT, END_TIME_AT, BEGIN_OFFSET_AT = page.BEGIN_TIME_AT, page.END_TIME_AT, page.BEGIN_OFFSET_AT
END_OFFSET_AT, SLOT_COUNT_AT, INDEX_COUNT_AT = page.END_OFFSET_AT, page.SLOT_COUNT_AT, page.INDEX_COUNT_AT

# What follow_chains finds: entries that do not name the one before in their chain, the first of them, the least and the
# greatest log offset, and how often an entry's is less than that of the entry before it.
WRONG_ENTRIES, FIRST_WRONG_ENTRY, LOW_OFFSET, HIGH_OFFSET, FALLING_ENTRIES = range(5)
FOUND_COUNT = 5

_LOOK_AHEAD = 24


def key_hashes(
    buffer: Any,
    columns: NDArray[int64],
    start: int,
    count: int,
    hashes: NDArray[int64],
    records: NDArray[int64],
    state: NDArray[int64],
) -> int:
    """Hash the keys of the records start … count - 1; returns the number of hashes.

    hashes, records  per key its hash and its record's number; at least MAX_KEYS_OF_RECORD places
    state[0]         the record to go on with: `count`, or the first whose keys might not fit any more
    """
    found = 0
    row = start
    while row < count:
        prefetch_properties(buffer, columns, row + PREFETCH_RECORDS, count)
        properties = int(columns[7, row])
        # A key takes at least one byte and its separator.
        if found + properties // 2 + 1 > len(hashes):
            break
        if properties > 0 and int(columns[11, row]) & TRANSACTION_ROLLBACK != TRANSACTION_ROLLBACK:
            found = hash_keys(buffer, columns, row, hashes, records, found)
        row += 1
    state[0] = row
    return found


def hash_keys(
    buffer: Any, columns: NDArray[int64], row: int, hashes: NDArray[int64], records: NDArray[int64], found: int
) -> int:
    """The keys of one record, UNIQ_KEY first."""
    start = int(columns[6, row])
    uniq_at, uniq_stop, keys_at, keys_stop = find_values(buffer, start, start + int(columns[7, row]), UNIQ_KEY, KEYS)
    if uniq_at < 0 and keys_at < 0:
        return found
    topic_at = int(columns[4, row])
    topic = hash_text(buffer, topic_at, topic_at + int(columns[5, row]), 0)
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
    return found


def put_index_entries(
    index: Any,
    slot_count: int,
    entry_capacity: int,
    hashes: NDArray[int64],
    records: NDArray[int64],
    start: int,
    stop: int,
    columns: NDArray[int64],
    header: NDArray[int64],
) -> int:
    """Put the keys start … stop - 1 into one index file; returns where it stopped: `stop`, or the file is full.

    index   the mapped file, 40 + 4 x slot_count + 20 x entry_capacity bytes; nothing is written behind its end
    header  int64 [6], the file's header in the order of IndexHeader; kept current here and in the file

    Keys of records before the header's end log offset were put before and are passed over.
    """
    entries_at = HEADER_SIZE + SLOT_SIZE * slot_count
    capacity = min(entry_capacity, (len(index) - entries_at) // ENTRY_SIZE)
    header[INDEX_COUNT] = max(header[INDEX_COUNT], FIRST_INDEX_COUNT)
    at = start
    while at < stop and slot_count > 0 and header[INDEX_COUNT] < capacity:
        if at + _LOOK_AHEAD < stop:
            prefetch(index, HEADER_SIZE + SLOT_SIZE * (int(hashes[at + _LOOK_AHEAD]) % slot_count))
        row = int(records[at])
        log_offset = int(columns[10, row])
        if log_offset >= header[END_OFFSET]:
            put_entry(index, entries_at, slot_count, int(hashes[at]), log_offset, int(columns[12, row]), header)
        at += 1
    if len(index) >= HEADER_SIZE:
        write_header(index, header)
    return at


def put_entry(
    index: Any,
    entries_at: int,
    slot_count: int,
    key_hash: int,
    log_offset: int,
    store_time_ms: int,
    header: NDArray[int64],
) -> None:
    """One entry at the head of its slot's chain."""
    count = int(header[INDEX_COUNT])
    slot_at = HEADER_SIZE + SLOT_SIZE * (key_hash % slot_count)
    previous = read_int(index, slot_at)
    if previous <= 0 or previous > count:
        previous = 0
        header[SLOT_COUNT] += 1
    entry_at = entries_at + ENTRY_SIZE * count
    write_int(index, entry_at, key_hash)
    write_long(index, entry_at + 4, log_offset)
    write_int(index, entry_at + 12, time_diff_seconds(store_time_ms, int(header[BEGIN_TIME])))
    write_int(index, entry_at + 16, previous)
    write_int(index, slot_at, count)
    if count <= 1:
        header[BEGIN_OFFSET] = log_offset
        header[BEGIN_TIME] = store_time_ms
    header[INDEX_COUNT] = count + 1
    header[END_OFFSET] = log_offset
    header[END_TIME] = store_time_ms


def time_diff_seconds(store_time_ms: int, begin_time_ms: int) -> int:
    """Seconds since the file's first entry, cut to 0 … 2^31 - 1; 0 while it has no begin time."""
    difference = store_time_ms - begin_time_ms
    if begin_time_ms <= 0 or difference <= 0:
        return 0
    return min(difference // 1000, MAX_TIME_DIFF_SECONDS)


def write_header(index: Any, header: NDArray[int64]) -> None:
    write_long(index, BEGIN_TIME_AT, int(header[BEGIN_TIME]))
    write_long(index, END_TIME_AT, int(header[END_TIME]))
    write_long(index, BEGIN_OFFSET_AT, int(header[BEGIN_OFFSET]))
    write_long(index, END_OFFSET_AT, int(header[END_OFFSET]))
    write_int(index, SLOT_COUNT_AT, int(header[SLOT_COUNT]))
    write_int(index, INDEX_COUNT_AT, int(header[INDEX_COUNT]))


def follow_chains(index: Any, slot_count: int, count: int, newest: NDArray[int64], found: NDArray[int64]) -> None:
    """Hold each of the entries 1 … count - 1 against the chain of its slot, in which it must name the one before.

    newest  int64 [slot_count], zeros at first: the newest entry of each slot
    found   int64 [FOUND_COUNT], zeros at first: see WRONG_ENTRIES …
    """
    entries_at = HEADER_SIZE + SLOT_SIZE * slot_count
    for entry in range(1, count):
        at = entries_at + ENTRY_SIZE * entry
        slot = read_int(index, at) % slot_count
        if read_int(index, at + 16) != newest[slot]:
            if found[WRONG_ENTRIES] == 0:
                found[FIRST_WRONG_ENTRY] = entry
            found[WRONG_ENTRIES] += 1
        newest[slot] = entry
        log_offset = read_long(index, at + 4)
        if entry == 1 or log_offset < found[LOW_OFFSET]:
            found[LOW_OFFSET] = log_offset
        if entry == 1 or log_offset > found[HIGH_OFFSET]:
            found[HIGH_OFFSET] = log_offset
        if entry > 1 and log_offset < read_long(index, at - ENTRY_SIZE + 4):
            found[FALLING_ENTRIES] += 1


HELPERS = (hash_keys, time_diff_seconds, write_header, put_entry)
KERNELS = {
    "key_hashes": (key_hashes, "long(bytes, matrix, long, long, longs, longs, longs)"),
    "put_index_entries": (
        put_index_entries,
        "long(writable, long, long, longs, longs, long, long, matrix, longs)",
    ),
    "follow_chains": (follow_chains, "none(bytes, long, long, longs, longs)"),
}
