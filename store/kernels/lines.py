"""Simple lines of JSON into columns of messages.

    block               whole lines
    words … parts       as in line_members.py
    texts               int64 [2, TEXTS]: position and size of earlier texts; -1 at first
    bodies, properties  the bodies and property strings, one after another; as long as the block
    rows                int64 [len(ROW_NAMES), lines or more]: a row of the matrix per field

IS_SOUND is 0 for a line that is left to the exact parser. Such a line is not a simple one, or its values are none of a
message. Or it needs more than copying, such as a body to compress again.
"""

from __future__ import annotations

from store.kernels.base64 import decode_base64
from store.kernels.cython import Address, Bytes, Flag, Long, Longs, Matrix, Writable, cfunc, kernel
from store.kernels.encode import is_int
from store.kernels.line_members import (
    ABSENT,
    BODY_END,
    BORN_HOST_AT,
    BORN_TIME,
    FALSE,
    FLAG,
    FROM,
    HAS_STORE_TIME,
    IN_BASE64,
    IN_UTF8,
    IS_DAMAGED,
    IS_PLAIN,
    IS_SOUND,
    IS_STORED,
    IS_ZLIB,
    KIND,
    LINE_END,
    LINE_START,
    NULL,
    NUMBER,
    OF_BODY,
    OF_BODY_STATE,
    OF_BODY_TEXT,
    OF_BORN_HOST,
    OF_BORN_TIME,
    OF_COMPRESSION,
    OF_CRC_OK,
    OF_ENCODING,
    OF_FLAG,
    OF_PREPARED_OFFSET,
    OF_QUEUE_ID,
    OF_RECONSUMED,
    OF_STORE_HOST,
    OF_STORE_TIME,
    OF_SYS_FLAG,
    OF_TOPIC,
    PREPARED_OFFSET,
    PROPERTY_END,
    QUEUE_ID,
    RECONSUMED,
    STORE_HOST_AT,
    STORE_TIME,
    SYS_FLAG,
    TEXT,
    TO,
    TOPIC_AT,
    find_members,
    is_word,
)
from store.kernels.line_properties import take_properties
from store.kernels.native import bytes_equal, copy_bytes, find_either, read_byte, size_of, start_of

TEXTS = 1 << 10
"""Number of remembered texts, by hash; a forgotten text counts as a new one."""
_HASH_MASK = (1 << 31) - 1

_NEWLINE = ord("\n")
_COMPRESSION, _ZLIB, _ZLIB_TOO = 0x701, 0x001, 0x301
"""The bits of a sys flag for a compression, and their two values for zlib (formats/body.py)."""


@kernel
def read_lines(
    block: Bytes,
    is_utf8: Flag,
    now_ms: Long,
    words: Bytes,
    word_ends: Longs,
    values: Matrix,
    parts: Matrix,
    texts: Matrix,
    bodies: Writable,
    properties: Writable,
    rows: Matrix,
) -> Long:
    """Read each line into a row; return the number of lines, or -1 if there are more than rows.

    is_utf8  whether the block is UTF-8; if not, lines that are not ASCII are left
    now_ms   the born time of lines without one
    """
    buffer, stop, word_bytes = start_of(block), size_of(block), start_of(words)
    at, row, body_end, property_end = 0, 0, 0, 0
    while at < stop:
        if row == rows.shape[1]:
            return -1
        end = find_either(buffer, _NEWLINE, _NEWLINE, at, stop)
        rows[LINE_START, row], rows[LINE_END, row] = at, end
        rows[BODY_END, row], rows[PROPERTY_END, row] = body_end, property_end
        is_sound: Flag = find_members(buffer, at, end, is_utf8, word_bytes, word_ends, values, parts)
        is_sound = is_sound and take_numbers(values, rows, row, now_ms)
        is_sound = is_sound and take_texts(buffer, values, texts, rows, row)
        is_sound = is_sound and take_body(buffer, word_bytes, word_ends, values, start_of(bodies), rows, row)
        is_sound = is_sound and take_properties(
            buffer, word_bytes, word_ends, values, parts, start_of(properties), rows, row
        )
        rows[IS_SOUND, row] = is_sound
        if is_sound:
            body_end, property_end = rows[BODY_END, row], rows[PROPERTY_END, row]
        else:
            rows[BODY_END, row], rows[PROPERTY_END, row] = body_end, property_end
        at = end + 1
        row += 1
    return row


@cfunc
def take_numbers(values: Matrix, rows: Matrix, row: Long, now_ms: Long) -> Flag:
    """Fill the row's numbers and IS_DAMAGED; return False for an impossible value."""
    is_damaged: Flag = values[KIND, OF_CRC_OK] == FALSE
    has_time: Flag = values[KIND, OF_STORE_TIME] == NUMBER
    rows[IS_DAMAGED, row], rows[HAS_STORE_TIME, row] = is_damaged, has_time
    rows[STORE_TIME, row] = values[FROM, OF_STORE_TIME] if has_time else 0
    if not has_time and values[KIND, OF_STORE_TIME] not in (ABSENT, NULL):
        return False
    return (
        take_int(values, OF_QUEUE_ID, rows, QUEUE_ID, row)
        and take_int(values, OF_FLAG, rows, FLAG, row)
        and take_int(values, OF_SYS_FLAG, rows, SYS_FLAG, row)
        and take_int(values, OF_RECONSUMED, rows, RECONSUMED, row)
        and take_long(values, OF_BORN_TIME, rows, BORN_TIME, row, now_ms)
        and take_long(values, OF_PREPARED_OFFSET, rows, PREPARED_OFFSET, row, 0)
    )


@cfunc
def take_long(values: Matrix, code: Long, rows: Matrix, field: Long, row: Long, absent: Long) -> Flag:
    rows[field, row] = values[FROM, code] if values[KIND, code] == NUMBER else absent
    return values[KIND, code] in (NUMBER, ABSENT)


@cfunc
def take_int(values: Matrix, code: Long, rows: Matrix, field: Long, row: Long) -> Flag:
    return take_long(values, code, rows, field, row, 0) and is_int(rows[field, row])


@cfunc
def take_texts(buffer: Address, values: Matrix, texts: Matrix, rows: Matrix, row: Long) -> Flag:
    """Fill the row's topic and hosts; equal texts have the position of the first, so that few differ."""
    if values[KIND, OF_TOPIC] not in (TEXT, ABSENT):
        return False
    if values[KIND, OF_BORN_HOST] not in (TEXT, ABSENT, NULL) or values[KIND, OF_STORE_HOST] not in (
        TEXT,
        ABSENT,
        NULL,
    ):
        return False
    take_text(buffer, values, OF_TOPIC, texts, rows, TOPIC_AT, row)
    take_text(buffer, values, OF_BORN_HOST, texts, rows, BORN_HOST_AT, row)
    take_text(buffer, values, OF_STORE_HOST, texts, rows, STORE_HOST_AT, row)
    return True


@cfunc
def take_text(buffer: Address, values: Matrix, code: Long, texts: Matrix, rows: Matrix, field: Long, row: Long) -> None:
    """Fill position and size of a text, by its first occurrence; -1 if absent."""
    rows[field, row], rows[field + 1, row] = -1, 0
    if values[KIND, code] != TEXT:
        return
    start, size = values[FROM, code], values[TO, code] - values[FROM, code]
    hashed: Long = size
    for at in range(start, start + size):
        hashed = hashed * 31 + read_byte(buffer, at) & _HASH_MASK
    slot = (hashed ^ hashed >> 13) & TEXTS - 1
    known: Long = texts[0, slot]
    if known < 0 or texts[1, slot] != size or not bytes_equal(buffer, known, buffer, start, size):
        texts[0, slot], texts[1, slot] = start, size
    rows[field, row], rows[field + 1, row] = texts[0, slot], size


@cfunc
def is_zlib(buffer: Address, words: Address, word_ends: Longs, values: Matrix, rows: Matrix, row: Long) -> Flag:
    """Return whether the compression is zlib, by its text and by the sys flag."""
    start, end = values[FROM, OF_COMPRESSION], values[TO, OF_COMPRESSION]
    bits = rows[SYS_FLAG, row] & _COMPRESSION
    is_text: Flag = values[KIND, OF_COMPRESSION] == TEXT and bits in (_ZLIB, _ZLIB_TOO)
    return is_text and is_word(buffer, start, end, words, word_ends, IS_ZLIB)


@cfunc
def take_body(
    buffer: Address, words: Address, word_ends: Longs, values: Matrix, bodies: Address, rows: Matrix, row: Long
) -> Flag:
    """Write the body to `bodies`, decoded from base64 or as text; return False if the line is left."""
    encoding, state = values[KIND, OF_ENCODING], values[KIND, OF_BODY_STATE]
    if encoding not in (ABSENT, TEXT) or state not in (ABSENT, TEXT):
        return False
    start, end = values[FROM, OF_ENCODING], values[TO, OF_ENCODING]
    is_text: Flag = encoding == TEXT and is_word(buffer, start, end, words, word_ends, IN_UTF8)
    if encoding == TEXT and not is_text and not is_word(buffer, start, end, words, word_ends, IN_BASE64):
        return False
    if state == TEXT:
        start, end = values[FROM, OF_BODY_STATE], values[TO, OF_BODY_STATE]
        is_plain: Flag = is_word(buffer, start, end, words, word_ends, IS_PLAIN)
        if not is_plain and not is_word(buffer, start, end, words, word_ends, IS_STORED):
            return False
    if values[KIND, OF_COMPRESSION] not in (ABSENT, NULL) and not is_zlib(buffer, words, word_ends, values, rows, row):
        return False
    body: Long = OF_BODY
    if values[KIND, OF_BODY] == ABSENT:
        if values[KIND, OF_BODY_TEXT] == ABSENT:
            return True
        body, is_text = OF_BODY_TEXT, True
    elif values[KIND, OF_BODY_TEXT] != ABSENT:
        return False
    if values[KIND, body] != TEXT:
        return False
    at, start, end = rows[BODY_END, row], values[FROM, body], values[TO, body]
    if is_text:
        copy_bytes(bodies, at, buffer, start, end - start)
        at += end - start
    else:
        at = decode_base64(buffer, start, end, bodies, at)
    rows[BODY_END, row] = at
    is_decoded: Flag = at >= 0
    return is_decoded
