"""Stored records as lines of JSON, for records that need only copying.

    records                 a buffer with records in it
    places, sizes           where each of them is, and its bytes
    pieces, piece_ends      PIECES one after another
    words … parts           as in line_members.py
    target                  buffer for the lines
    line_ends               int64 [records]: the end of each line; the begin for a record that is left

Other records are left to the general writer: those with a compressed body, an IPv6 host, a text that is not printable
ASCII, a property that is empty or given twice. The lines are those of rmqctl's message object.
"""

from __future__ import annotations

from store.formats import properties as props
from store.formats.message import COMPRESSED, MESSAGE_MAGIC_V1_SIGNED, MESSAGE_MAGIC_V2_SIGNED
from store.kernels.base64 import encode_base64
from store.kernels.cython import Address, Bytes, Flag, Long, Longs, Matrix, Writable, cfunc, kernel
from store.kernels.line_members import (
    KEYS,
    MOST_PARTS,
    NAME_FROM,
    NAME_TO,
    TAGS,
    UNIQ_KEY,
    VALUE_FROM,
    VALUE_TO,
    is_given,
    is_word,
)
from store.kernels.line_text import put_field, put_number, put_piece, put_text
from store.kernels.native import (
    body_crc,
    find_either,
    read_byte,
    read_int,
    read_long,
    read_short,
    size_of,
    start_of,
    write_byte,
)
from store.kernels.scan import BORN_HOST_V6, STORE_HOST_V6

PIECES = (
    '{"topic": "', '", "queue_id": ', ', "queue_offset": ', ', "log_offset": ', ', "size": ', ', "msg_id": "',
    '", "uniq_key": ', ', "keys": [', '], "tags": ', ', "flag": ', ', "sys_flag": ', ', "born_timestamp_ms": ',
    ', "born_host": "', '", "store_timestamp_ms": ', ', "store_host": "', '", "reconsume_times": ',
    ', "prepared_transaction_offset": ', ', "body_crc": ', ', "crc_ok": ',
    ', "compression": null, "body_state": "plain"', ', "body": "', '", "body_encoding": "base64"',
    ', "properties": {', "}", ', "property_bytes": "', '"', "}\n", "null", "true", "false", '", ', '": "',
)  # fmt: skip
(
    TOPIC_IS, QUEUE_ID_IS, QUEUE_OFFSET_IS, LOG_OFFSET_IS, SIZE_IS, MSG_ID_IS, UNIQ_KEY_IS, KEYS_ARE, TAGS_ARE, FLAG_IS,
    SYS_FLAG_IS, BORN_TIME_IS, BORN_HOST_IS, STORE_TIME_IS, STORE_HOST_IS, RECONSUMED_IS, PREPARED_OFFSET_IS,
    BODY_CRC_IS, CRC_OK_IS, STATE_IS, BODY_IS, ENCODING_IS, PROPERTIES_ARE, PROPERTIES_END, PROPERTY_BYTES_ARE, QUOTE,
    LINE_ENDS, NULL_PIECE, TRUE_PIECE, FALSE_PIECE, BETWEEN, VALUE_IS,
) = range(len(PIECES))  # fmt: skip
MOST_OF_A_BYTE = 8
MOST_OF_A_LINE = 1024
"""A line is shorter than this plus MOST_OF_A_BYTE for each byte of its record."""

_QUOTE, _BLANK, _DOT, _COLON, _COMMA = map(ord, '" .:,')
_NAME_END, _PART_END = ord(props.NAME_VALUE_SEPARATOR), ord(props.PROPERTY_SEPARATOR)
HEX_DIGITS = tuple(b"0123456789ABCDEF")
_HOSTS_V4 = 88
_UINT_MASK = (1 << 32) - 1


@kernel
def write_lines(
    records: Bytes,
    places: Longs,
    sizes: Longs,
    start: Long,
    with_body: Flag,
    pieces: Bytes,
    piece_ends: Longs,
    words: Bytes,
    word_ends: Longs,
    parts: Matrix,
    target: Writable,
    line_ends: Longs,
    is_left: Longs,
) -> Long:
    """Write the lines of records from `start` on, as many as certainly fit; return their number."""
    count = len(places)
    row, at = start, 0
    while row < count:
        size = sizes[row]
        if at + size * MOST_OF_A_BYTE + MOST_OF_A_LINE > size_of(target):
            break
        end = write_line(
            start_of(records), places[row], size, with_body, start_of(pieces), piece_ends, start_of(words),
            word_ends, parts, start_of(target), at,
        )  # fmt: skip
        is_left[row] = end < 0
        at = max(end, at)
        line_ends[row] = at
        row += 1
    return row - start


@cfunc
def write_line(
    records: Address,
    record: Long,
    size: Long,
    with_body: Flag,
    pieces: Address,
    piece_ends: Longs,
    words: Address,
    word_ends: Longs,
    parts: Matrix,
    target: Address,
    at: Long,
) -> Long:
    """Write the line of one record; return its end, or -1 if the record is left."""
    if size < _HOSTS_V4 + 3 or read_int(records, record) != size:
        return -1
    magic = read_int(records, record + 4)
    flag = read_int(records, record + 36)
    if magic not in (MESSAGE_MAGIC_V1_SIGNED, MESSAGE_MAGIC_V2_SIGNED) or flag & (
        COMPRESSED | BORN_HOST_V6 | STORE_HOST_V6
    ):
        return -1
    body = record + _HOSTS_V4
    topic_width: Long = 2 if magic == MESSAGE_MAGIC_V2_SIGNED else 1
    body_size = read_int(records, body - 4)
    end = record + size
    if body_size < 0 or body + body_size + topic_width + 2 > end:
        return -1
    topic = body + body_size + topic_width
    topic_size = read_short(records, topic - 2) if topic_width == 2 else read_byte(records, topic - 1)
    if topic_size < 0 or (topic_width == 1 and topic_size > 127) or topic + topic_size + 2 > end:
        return -1
    first = topic + topic_size + 2
    if read_short(records, first - 2) != end - first:
        return -1
    count = split_parts(records, first, end, parts)
    if count < 0:
        return -1
    at = put_piece(target, at, pieces, piece_ends, TOPIC_IS)
    at = put_text(target, at, records, topic, topic + topic_size)
    if at < 0:
        return -1
    at = put_place(target, at, records, record, pieces, piece_ends)
    at = put_named(target, at, records, parts, count, pieces, piece_ends, words, word_ends)
    if at < 0:
        return -1
    at = put_origin(target, at, records, record, pieces, piece_ends)
    at = put_body(target, at, records, record, body, body_size, with_body, pieces, piece_ends)
    return put_properties(target, at, records, first, end, parts, count, pieces, piece_ends)


@cfunc
def split_parts(records: Address, start: Long, end: Long, parts: Matrix) -> Long:
    """Fill `parts` with the properties, return their number; -1 unless each name is once, with a value."""
    count: Long = 0
    at = start
    while at < end:
        stop = find_either(records, _PART_END, _PART_END, at, end)
        middle = find_either(records, _NAME_END, _NAME_END, at, stop)
        if middle == at or middle + 1 >= stop or count == MOST_PARTS:
            return -1
        parts[NAME_FROM, count], parts[NAME_TO, count] = at, middle
        parts[VALUE_FROM, count], parts[VALUE_TO, count] = middle + 1, stop
        if is_given(records, parts, count):
            return -1
        count += 1
        at = stop + 1
    return count


@cfunc
def put_place(target: Address, at: Long, records: Address, record: Long, pieces: Address, piece_ends: Longs) -> Long:
    """Write queue id, queue offset, log offset, size and message id."""
    at = put_field(target, at, pieces, piece_ends, QUEUE_ID_IS, read_int(records, record + 12))
    at = put_field(target, at, pieces, piece_ends, QUEUE_OFFSET_IS, read_long(records, record + 20))
    at = put_field(target, at, pieces, piece_ends, LOG_OFFSET_IS, read_long(records, record + 28))
    at = put_field(target, at, pieces, piece_ends, SIZE_IS, read_int(records, record))
    at = put_piece(target, at, pieces, piece_ends, MSG_ID_IS)
    # A message id is the store host and the log offset.
    for place in range(16):
        byte = read_byte(records, record + 64 + place if place < 8 else record + 20 + place)
        write_byte(target, at, HEX_DIGITS[byte >> 4])
        write_byte(target, at + 1, HEX_DIGITS[byte & 15])
        at += 2
    return at


@cfunc
def put_named(
    target: Address,
    at: Long,
    records: Address,
    parts: Matrix,
    count: Long,
    pieces: Address,
    piece_ends: Longs,
    words: Address,
    word_ends: Longs,
) -> Long:
    """Write the unique key, the keys and the tags; return -1 for text that is left."""
    at = put_piece(target, at, pieces, piece_ends, UNIQ_KEY_IS)
    at = put_value(
        target, at, records, parts, find_part(records, parts, count, words, word_ends, UNIQ_KEY), pieces, piece_ends
    )
    if at < 0:
        return -1
    at = put_piece(target, at, pieces, piece_ends, KEYS_ARE)
    keys = find_part(records, parts, count, words, word_ends, KEYS)
    if keys >= 0:
        at = put_keys(target, at, records, parts[VALUE_FROM, keys], parts[VALUE_TO, keys])
    if at < 0:
        return -1
    at = put_piece(target, at, pieces, piece_ends, TAGS_ARE)
    return put_value(
        target, at, records, parts, find_part(records, parts, count, words, word_ends, TAGS), pieces, piece_ends
    )


@cfunc
def find_part(records: Address, parts: Matrix, count: Long, words: Address, word_ends: Longs, word: Long) -> Long:
    """Return the number of the property with this name, or -1."""
    for part in range(count):
        if is_word(records, parts[NAME_FROM, part], parts[NAME_TO, part], words, word_ends, word):
            return part
    return -1


@cfunc
def put_value(
    target: Address, at: Long, records: Address, parts: Matrix, part: Long, pieces: Address, piece_ends: Longs
) -> Long:
    """Write a property's value, or null; return -1 for text that is left."""
    if part < 0:
        return put_piece(target, at, pieces, piece_ends, NULL_PIECE)
    write_byte(target, at, _QUOTE)
    at = put_text(target, at + 1, records, parts[VALUE_FROM, part], parts[VALUE_TO, part])
    if at < 0:
        return -1
    write_byte(target, at, _QUOTE)
    return at + 1


@cfunc
def put_keys(target: Address, at: Long, records: Address, start: Long, end: Long) -> Long:
    """Write the keys of a text with blanks between them; return -1 for text that is left."""
    count: Long = 0
    while start < end:
        stop = find_either(records, _BLANK, _BLANK, start, end)
        if stop > start:
            if count > 0:
                write_byte(target, at, _COMMA)
                write_byte(target, at + 1, _BLANK)
                at += 2
            write_byte(target, at, _QUOTE)
            at = put_text(target, at + 1, records, start, stop)
            if at < 0:
                return -1
            write_byte(target, at, _QUOTE)
            at += 1
            count += 1
        start = stop + 1
    return at


@cfunc
def put_origin(target: Address, at: Long, records: Address, record: Long, pieces: Address, piece_ends: Longs) -> Long:
    """Write flags, times, hosts, reconsume times and prepared offset."""
    at = put_field(target, at, pieces, piece_ends, FLAG_IS, read_int(records, record + 16))
    at = put_field(target, at, pieces, piece_ends, SYS_FLAG_IS, read_int(records, record + 36))
    at = put_field(target, at, pieces, piece_ends, BORN_TIME_IS, read_long(records, record + 40))
    at = put_host(target, put_piece(target, at, pieces, piece_ends, BORN_HOST_IS), records, record + 48)
    at = put_field(target, at, pieces, piece_ends, STORE_TIME_IS, read_long(records, record + 56))
    at = put_host(target, put_piece(target, at, pieces, piece_ends, STORE_HOST_IS), records, record + 64)
    at = put_field(target, at, pieces, piece_ends, RECONSUMED_IS, read_int(records, record + 72))
    return put_field(target, at, pieces, piece_ends, PREPARED_OFFSET_IS, read_long(records, record + 76))


@cfunc
def put_host(target: Address, at: Long, records: Address, host: Long) -> Long:
    """Write an IPv4 address and a port."""
    for place in range(4):
        at = put_number(target, at, read_byte(records, host + place))
        write_byte(target, at, _DOT if place < 3 else _COLON)
        at += 1
    return put_number(target, at, read_int(records, host + 4))


@cfunc
def put_body(
    target: Address,
    at: Long,
    records: Address,
    record: Long,
    body: Long,
    size: Long,
    with_body: Flag,
    pieces: Address,
    piece_ends: Longs,
) -> Long:
    """Write the CRC, whether the body has it, and the body."""
    crc: Long = read_int(records, record + 8) & _UINT_MASK
    is_right: Flag = size == 0 or body_crc(records, body, size) == crc
    at = put_field(target, at, pieces, piece_ends, BODY_CRC_IS, crc)
    at = put_piece(target, at, pieces, piece_ends, CRC_OK_IS)
    at = put_piece(target, at, pieces, piece_ends, TRUE_PIECE if is_right else FALSE_PIECE)
    at = put_piece(target, at, pieces, piece_ends, STATE_IS)
    if not with_body:
        return at
    at = put_piece(target, at, pieces, piece_ends, BODY_IS)
    at = encode_base64(records, body, body + size, target, at)
    return put_piece(target, at, pieces, piece_ends, ENCODING_IS)


@cfunc
def put_properties(
    target: Address,
    at: Long,
    records: Address,
    start: Long,
    end: Long,
    parts: Matrix,
    count: Long,
    pieces: Address,
    piece_ends: Longs,
) -> Long:
    """Write the properties, and property_bytes if a separator ends them; return -1 for text that is left."""
    at = put_piece(target, at, pieces, piece_ends, PROPERTIES_ARE)
    for part in range(count):
        if part > 0:
            at = put_piece(target, at, pieces, piece_ends, BETWEEN)
        write_byte(target, at, _QUOTE)
        at = put_text(target, at + 1, records, parts[NAME_FROM, part], parts[NAME_TO, part])
        if at < 0:
            return -1
        at = put_piece(target, at, pieces, piece_ends, VALUE_IS)
        at = put_text(target, at, records, parts[VALUE_FROM, part], parts[VALUE_TO, part])
        if at < 0:
            return -1
    if count > 0:
        write_byte(target, at, _QUOTE)
        at += 1
    at = put_piece(target, at, pieces, piece_ends, PROPERTIES_END)
    if start < end and read_byte(records, end - 1) == _PART_END:
        at = put_piece(target, at, pieces, piece_ends, PROPERTY_BYTES_ARE)
        at = encode_base64(records, start, end, target, at)
        at = put_piece(target, at, pieces, piece_ends, QUOTE)
    return put_piece(target, at, pieces, piece_ends, LINE_ENDS)
