"""The property string of a line's message, from all members with a part of it.

`keys`, `tags` and `uniq_key` repeat a property, or add one: then it follows the others, as in Message.of. If
`property_bytes` are given, they hold all of it, and the other members must agree. A line with a contradiction is left
to the exact parser.
"""

from __future__ import annotations

from store.formats import properties as props
from store.kernels.base64 import decode_base64
from store.kernels.cython import Address, Flag, Long, Longs, Matrix, cfunc
from store.kernels.line_members import (
    ABSENT,
    FROM,
    HAS_REAL_TOPIC,
    KEYS,
    KIND,
    LIST,
    NAME_FROM,
    NAME_TO,
    NULL,
    OBJECT,
    OF_KEYS,
    OF_PROPERTIES,
    OF_PROPERTY_BYTES,
    OF_TAGS,
    OF_UNIQ_KEY,
    PROPERTY_END,
    REAL_TOPIC,
    TAGS,
    TEXT,
    TO,
    UNIQ_KEY,
    UNIQ_KEY_AT,
    UNIQ_KEY_END,
    VALUE_FROM,
    VALUE_TO,
    is_word,
)
from store.kernels.native import bytes_equal, copy_bytes, find_either, read_byte, write_byte

_QUOTE, _SPACE = ord('"'), ord(props.KEY_SEPARATOR)
_NAME_END, _PART_END = ord(props.NAME_VALUE_SEPARATOR), ord(props.PROPERTY_SEPARATOR)


@cfunc
def take_properties(
    buffer: Address,
    words: Address,
    word_ends: Longs,
    values: Matrix,
    parts: Matrix,
    target: Address,
    rows: Matrix,
    row: Long,
) -> Flag:
    """Write the property string after those of earlier lines; return False if the line is left."""
    rows[UNIQ_KEY_AT, row], rows[UNIQ_KEY_END, row], rows[HAS_REAL_TOPIC, row] = -1, -1, False
    start: Long = rows[PROPERTY_END, row]
    count: Long = 0
    if values[KIND, OF_PROPERTIES] == OBJECT:
        count = values[FROM, OF_PROPERTIES]
    elif values[KIND, OF_PROPERTIES] != ABSENT or values[KIND, OF_PROPERTY_BYTES] != ABSENT:
        return False
    at: Long = start
    keys: Long = -1
    tags: Long = -1
    uniq_key: Long = -1
    for part in range(count):
        name, name_end = parts[NAME_FROM, part], parts[NAME_TO, part]
        value, value_end = parts[VALUE_FROM, part], parts[VALUE_TO, part]
        at = put_part(target, start, at, buffer, name, name_end, buffer, value, value_end)
        if is_word(buffer, name, name_end, words, word_ends, KEYS):
            keys = part
        elif is_word(buffer, name, name_end, words, word_ends, TAGS):
            tags = part
        elif is_word(buffer, name, name_end, words, word_ends, UNIQ_KEY):
            uniq_key = part
            rows[UNIQ_KEY_AT, row], rows[UNIQ_KEY_END, row] = at - (value_end - value), at
        elif is_word(buffer, name, name_end, words, word_ends, REAL_TOPIC):
            rows[HAS_REAL_TOPIC, row] = True
    is_whole: Flag = values[KIND, OF_PROPERTY_BYTES] != ABSENT
    if is_whole:
        at = take_bytes(buffer, values, target, start, at)
    at = take_keys(buffer, words, word_ends, values, parts, keys, target, start, at, is_whole)
    at = take_named(buffer, words, word_ends, values, OF_TAGS, TAGS, parts, tags, target, start, at, is_whole)
    before: Long = at
    at = take_named(
        buffer, words, word_ends, values, OF_UNIQ_KEY, UNIQ_KEY, parts, uniq_key, target, start, at, is_whole
    )
    if at > before:
        rows[UNIQ_KEY_AT, row] = at - (values[TO, OF_UNIQ_KEY] - values[FROM, OF_UNIQ_KEY])
        rows[UNIQ_KEY_END, row] = at
    rows[PROPERTY_END, row] = at
    return at >= 0


@cfunc
def put_part(
    target: Address,
    start: Long,
    at: Long,
    names: Address,
    name: Long,
    name_end: Long,
    buffer: Address,
    value: Long,
    value_end: Long,
) -> Long:
    """Write one property at `at`, with a separator before it unless it is the first; return its end."""
    if at > start:
        write_byte(target, at, _PART_END)
        at += 1
    copy_bytes(target, at, names, name, name_end - name)
    at += name_end - name
    write_byte(target, at, _NAME_END)
    copy_bytes(target, at + 1, buffer, value, value_end - value)
    return at + 1 + value_end - value


@cfunc
def take_bytes(buffer: Address, values: Matrix, target: Address, start: Long, at: Long) -> Long:
    """Return the end of the string of `property_bytes`; -1 if it differs from the properties written."""
    if values[KIND, OF_PROPERTY_BYTES] != TEXT:
        return -1
    end: Long = decode_base64(buffer, values[FROM, OF_PROPERTY_BYTES], values[TO, OF_PROPERTY_BYTES], target, at)
    size: Long = at - start
    extra: Long = end - at - size
    if extra < 0 or extra > 1 or not bytes_equal(target, start, target, at, size):
        return -1
    if extra == 1:
        if read_byte(target, end - 1) != _PART_END:
            return -1
        write_byte(target, at, _PART_END)
    return at + extra


@cfunc
def take_keys(
    buffer: Address,
    words: Address,
    word_ends: Longs,
    values: Matrix,
    parts: Matrix,
    part: Long,
    target: Address,
    start: Long,
    at: Long,
    is_whole: Flag,
) -> Long:
    """Write the list of keys unless property `part` has them; return the end of the string, or -1."""
    kind: Long = values[KIND, OF_KEYS]
    if at < 0 or kind == ABSENT or (kind == NULL and not is_whole):
        return at
    if kind != LIST:
        return -1
    name: Long = word_ends[KEYS]
    name_end: Long = word_ends[KEYS + 1]
    # An empty value; the joined keys are written after it.
    first: Long = put_part(target, start, at, words, name, name_end, buffer, 0, 0)
    end: Long = join_keys(buffer, values[FROM, OF_KEYS], values[TO, OF_KEYS], target, first, is_whole)
    if end < 0:
        return -1
    if end == first:
        return -1 if is_whole and part >= 0 else at
    if part < 0:
        return -1 if is_whole else end
    value: Long = parts[VALUE_FROM, part]
    size: Long = parts[VALUE_TO, part] - value
    return at if end - first == size and bytes_equal(target, first, buffer, value, size) else -1


@cfunc
def join_keys(buffer: Address, at: Long, end: Long, target: Address, to: Long, is_split: Flag) -> Long:
    """Write the texts of a list with blanks between them; return the end.

    is_split  return -1 for an empty text, or one with a blank
    """
    count: Long = 0
    while at < end:
        if read_byte(buffer, at) != _QUOTE:
            at += 1
            continue
        stop: Long = find_either(buffer, _QUOTE, _QUOTE, at + 1, end)
        size: Long = stop - at - 1
        if is_split and (size == 0 or find_either(buffer, _SPACE, _QUOTE, at + 1, end) != stop):
            return -1
        if count > 0:
            write_byte(target, to, _SPACE)
            to += 1
        copy_bytes(target, to, buffer, at + 1, size)
        to += size
        count += 1
        at = stop + 1
    return to


@cfunc
def take_named(
    buffer: Address,
    words: Address,
    word_ends: Longs,
    values: Matrix,
    code: Long,
    word: Long,
    parts: Matrix,
    part: Long,
    target: Address,
    start: Long,
    at: Long,
    is_whole: Flag,
) -> Long:
    """Write the member for property `word`, unless property `part` has it; return the end, or -1."""
    kind: Long = values[KIND, code]
    if at < 0 or kind == ABSENT or (kind == NULL and not (is_whole and part >= 0)):
        return at
    if kind != TEXT:
        return -1
    first: Long = values[FROM, code]
    size: Long = values[TO, code] - first
    if part >= 0:
        value: Long = parts[VALUE_FROM, part]
        is_same: Flag = parts[VALUE_TO, part] - value == size and bytes_equal(buffer, value, buffer, first, size)
        # An empty member beside properties does not contradict them.
        return at if is_same or (size == 0 and not is_whole) else -1
    if is_whole:
        return -1
    if size == 0:
        return at
    return put_part(target, start, at, words, word_ends[word], word_ends[word + 1], buffer, first, first + size)
