"""Compare records with their copies, and read the properties that timer log units repeat.

Source: CompactionLog, TimerMessageStore.doEnqueue (5.3.3).
"""

from __future__ import annotations

from store.formats import properties as names
from store.formats.columns import Column
from store.kernels.cython import Address, Bytes, Flag, Long, Longs, Matrix, cfunc, kernel
from store.kernels.hashing import hash_text, to_int
from store.kernels.native import bytes_equal, find_either, read_byte, read_int, read_long, read_short, size_of, start_of
from store.kernels.properties import NAME_END, PART_END, PREFETCH_RECORDS, prefetch_properties

# The field of a record's log offset: a copy has another value there.
OWN_OFFSET, BEHIND_OWN_OFFSET = 28, 36
# A number of so many digits fits 63 bits, and a time has fewer.
MOST_DIGITS = 18
NOT_FOUND = -1

_ZERO = ord("0")
_DUE_HEAD, _DUE_TAIL = (int.from_bytes(part, "big") for part in (b"TIMER_OU", b"T_MS"))
_TOPIC_HEAD, _TOPIC_TAIL = (int.from_bytes(part, "big") for part in (b"REAL_TOP", b"IC"))
_DELETE_HEAD, _DELETE_MIDDLE, _DELETE_END = (int.from_bytes(part, "big") for part in (b"TIMER_DE", b"L_UNIQKE", b"Y"))
assert (names.TIMER_OUT_MS, names.REAL_TOPIC) == ("TIMER_OUT_MS", "REAL_TOPIC")
assert names.TIMER_DEL_UNIQKEY == "TIMER_DEL_UNIQKEY"


@kernel
def first_differences(
    copies: Bytes, originals: Bytes, columns: Matrix, rows: Longs, places: Longs, found: Longs
) -> None:
    """Find the first byte of each copied record that differs from its original, except its log offset.

    rows    numbers of the copies in `columns`
    places  position of each copy's original, which is whole in `originals`
    found   filled with the byte's position in the record, NOT_FOUND for equal records
    """
    data, other = start_of(copies), start_of(originals)
    for number in range(len(rows)):
        at, size, place = columns[Column.POSITION, rows[number]], columns[Column.SIZE, rows[number]], places[number]
        behind = size - BEHIND_OWN_OFFSET
        if bytes_equal(data, at, other, place, OWN_OFFSET) and bytes_equal(
            data, at + BEHIND_OWN_OFFSET, other, place + BEHIND_OWN_OFFSET, behind
        ):
            found[number] = NOT_FOUND
        else:
            found[number] = first_difference(data, at, other, place, size)


@cfunc
def first_difference(copy: Address, at: Long, original: Address, place: Long, size: Long) -> Long:
    """Return the position of the first differing byte, except in the log offset; NOT_FOUND for none."""
    for byte in range(size):
        if OWN_OFFSET <= byte < BEHIND_OWN_OFFSET:
            continue
        if read_byte(copy, at + byte) != read_byte(original, place + byte):
            return byte
    return NOT_FOUND


@kernel
def rows_with_property(buffer: Bytes, columns: Matrix, count: Long, name: Bytes, rows: Longs) -> Long:
    """Fill `rows` with the numbers of the records that have this property; return their count."""
    data, wanted, size, found = start_of(buffer), start_of(name), size_of(name), 0
    for row in range(count):
        prefetch_properties(data, columns, row + PREFETCH_RECORDS, count)
        at = columns[Column.PROPERTIES_POSITION, row]
        stop = at + columns[Column.PROPERTIES_SIZE, row]
        while at < stop:
            name_end, end = property_at(data, at, stop)
            if name_end - at == size and bytes_equal(data, at, wanted, 0, size):
                rows[found] = row
                found += 1
                break
            at = end + 1
    return found


@cfunc
def property_at(buffer: Address, start: Long, stop: Long) -> tuple[Long, Long]:
    """Return the ends of a property's name and of the property; the first is `start` for an empty part."""
    name_end = find_either(buffer, NAME_END, PART_END, start, stop)
    if name_end >= stop or read_byte(buffer, name_end) == PART_END:
        return start, name_end
    end = find_either(buffer, PART_END, PART_END, name_end, stop)
    if end == name_end + 1:
        return start, end
    return name_end, end


@kernel
def timer_properties(buffer: Bytes, columns: Matrix, rows: Longs, dues: Longs, hashes: Longs, deletes: Longs) -> None:
    """Read the properties of each record that its unit in the timer log repeats.

    rows     numbers of the records in `columns`
    dues     filled with TIMER_OUT_MS, NOT_FOUND if it is absent or not a number
    hashes   filled with the hash of REAL_TOPIC, 0 if absent
    deletes  filled with 1 if TIMER_DEL_UNIQKEY is there, else 0
    """
    data = start_of(buffer)
    for number in range(len(rows)):
        row = rows[number]
        at = columns[Column.PROPERTIES_POSITION, row]
        stop = at + columns[Column.PROPERTIES_SIZE, row]
        dues[number], hashes[number], deletes[number] = NOT_FOUND, 0, 0
        while at < stop:
            name_end, end = property_at(data, at, stop)
            size = name_end - at
            if size == 12 and is_due(data, at):
                dues[number] = parse_digits(data, name_end + 1, end)
            elif size == 10 and is_real_topic(data, at):
                hashes[number] = to_int(hash_text(data, name_end + 1, end, 0))
            elif size == 17 and is_delete(data, at):
                deletes[number] = 1
            at = end + 1


@cfunc
def is_due(buffer: Address, at: Long) -> Flag:
    """Return whether the 12 bytes are TIMER_OUT_MS."""
    return read_long(buffer, at) == _DUE_HEAD and read_int(buffer, at + 8) == _DUE_TAIL


@cfunc
def is_real_topic(buffer: Address, at: Long) -> Flag:
    """Return whether the 10 bytes are REAL_TOPIC."""
    return read_long(buffer, at) == _TOPIC_HEAD and read_short(buffer, at + 8) == _TOPIC_TAIL


@cfunc
def is_delete(buffer: Address, at: Long) -> Flag:
    """Return whether the 17 bytes are TIMER_DEL_UNIQKEY."""
    head, middle, end = read_long(buffer, at), read_long(buffer, at + 8), read_byte(buffer, at + 16)
    return head == _DELETE_HEAD and middle == _DELETE_MIDDLE and end == _DELETE_END


@cfunc
def parse_digits(buffer: Address, start: Long, stop: Long) -> Long:
    """Return the decimal number, NOT_FOUND unless the bytes are 1 to MOST_DIGITS digits."""
    if start >= stop or stop - start > MOST_DIGITS:
        return NOT_FOUND
    value = 0
    for at in range(start, stop):
        digit = read_byte(buffer, at) - _ZERO
        if digit < 0 or digit > 9:
            return NOT_FOUND
        value = value * 10 + digit
    return value
