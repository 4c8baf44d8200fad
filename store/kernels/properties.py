"""Finds properties in the raw property bytes of a record, without making strings.

Splitting the bytes at 0x02, 0x01 and space gives the same parts as splitting the decoded text: Java's UTF-8 decoder
drops no ASCII byte. The rule is that of formats/properties.py: a part counts if its first 0x01 has a name before it and
a value after it, and of equal names the last one counts.

Source: MessageDecoder.string2messageProperties, Integer.parseInt (Java 8).
"""

from __future__ import annotations

from store.formats import properties as names
from store.formats.columns import Column
from store.kernels.cython import Address, Bytes, Flag, Long, Matrix, cfunc, kernel
from store.kernels.native import (
    find_all,
    find_bytes,
    lowest_bit,
    prefetch,
    read_byte,
    read_int,
    read_long,
    size_of,
    start_of,
)

# Records between the prefetch of properties and their use.
PREFETCH_RECORDS = 6
_LINE_SIZE = 64
# Bytes that find_all reads.
BLOCK_SIZE = 64

NAME_END = ord(names.NAME_VALUE_SEPARATOR)
PART_END = ord(names.PROPERTY_SEPARATOR)
SPACE = ord(names.KEY_SEPARATOR)

# Codes of the names that dispatch needs.
OTHER, TAGS, KEYS, DELAY, UNIQ_KEY = range(5)

_TAGS = int.from_bytes(names.TAGS.encode(), "big")
_KEYS = int.from_bytes(names.KEYS.encode(), "big")
_DELAY_HEAD = int.from_bytes(names.DELAY.encode()[:4], "big")
_DELAY_TAIL = names.DELAY.encode()[4]
_UNIQ_KEY = int.from_bytes(names.UNIQ_KEY.encode(), "big")
assert [len(name) for name in (names.TAGS, names.KEYS, names.DELAY, names.UNIQ_KEY)] == [4, 4, 5, 8]

_PLUS, _MINUS, _ZERO = ord("+"), ord("-"), ord("0")
_INT_LIMIT = 1 << 31


@kernel
def find_text(buffer: Bytes, text: Bytes, start: Long, stop: Long) -> Long:
    """Return the first position of the text in start … stop - len(text), or -1."""
    return find_bytes(start_of(buffer), start_of(text), size_of(text), max(start, 0), min(stop, size_of(buffer)))


@cfunc
def name_code(buffer: Address, start: Long, size: Long) -> Long:
    """Return the code of the name at `start`; OTHER for a name that dispatch does not need."""
    if size == 4:
        name = read_int(buffer, start)
        if name == _TAGS:
            return TAGS
        if name == _KEYS:
            return KEYS
    elif size == 5:
        if read_int(buffer, start) == _DELAY_HEAD and read_byte(buffer, start + 4) == _DELAY_TAIL:
            return DELAY
    elif size == 8 and read_long(buffer, start) == _UNIQ_KEY:
        return UNIQ_KEY
    return OTHER


@cfunc
def find_values(buffer: Address, start: Long, stop: Long) -> tuple[Long, Long, Long, Long, Long, Long, Long, Long]:
    """Return start and end of the values of TAGS, DELAY, UNIQ_KEY and KEYS, -1 for an absent one.

    Of equal names the last one counts. `stop` counts as a PART_END; no byte is read there.
    """
    tags_start = tags_stop = delay_start = delay_stop = -1
    uniq_start = uniq_stop = keys_start = keys_stop = -1
    at, name = start, -1
    for block in range(start, stop + 1, BLOCK_SIZE):
        name_ends = find_all(buffer, NAME_END, block, stop)
        part_ends = find_all(buffer, PART_END, block, stop)
        if stop - block < BLOCK_SIZE:
            part_ends |= 1 << (stop - block)
        while part_ends != 0:
            end = part_ends & -part_ends
            place = block + lowest_bit(part_ends)
            part_ends ^= end
            if name < 0 and name_ends & (end - 1) != 0:
                name = block + lowest_bit(name_ends)
            name_ends &= -end
            if at < name < place - 1:
                code = name_code(buffer, at, name - at)
                if code == TAGS:
                    tags_start, tags_stop = name + 1, place
                elif code == KEYS:
                    keys_start, keys_stop = name + 1, place
                elif code == UNIQ_KEY:
                    uniq_start, uniq_stop = name + 1, place
                elif code == DELAY:
                    delay_start, delay_stop = name + 1, place
            at, name = place + 1, -1
        if name < 0 and name_ends != 0:
            name = block + lowest_bit(name_ends)
    return tags_start, tags_stop, delay_start, delay_stop, uniq_start, uniq_stop, keys_start, keys_stop


@cfunc
def parse_int(buffer: Address, start: Long, stop: Long) -> tuple[Flag, Long]:
    """Return (True, number) of ASCII text as of Integer.parseInt, (False, 0) if Java throws."""
    at = start
    negative: Flag = False
    if at < stop:
        sign = read_byte(buffer, at)
        negative = sign == _MINUS
        if sign in (_MINUS, _PLUS):
            at += 1
    if at >= stop:
        return False, 0
    value = 0
    while at < stop:
        digit = read_byte(buffer, at) - _ZERO
        if digit < 0 or digit > 9:
            return False, 0
        value = value * 10 + digit
        if value > _INT_LIMIT:
            return False, 0
        at += 1
    if value == _INT_LIMIT and not negative:
        return False, 0
    return True, -value if negative else value


@cfunc
def prefetch_properties(buffer: Address, columns: Matrix, row: Long, count: Long) -> None:
    """Prefetch the topic and the first properties of a record ahead."""
    if row < count:
        at = columns[Column.TOPIC_POSITION, row]
        prefetch(buffer, at)
        prefetch(buffer, at + _LINE_SIZE)
        prefetch(buffer, at + 2 * _LINE_SIZE)
