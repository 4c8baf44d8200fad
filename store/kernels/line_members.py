"""The members of a line of JSON: the position of each value, if the line is a simple one.

    words    NAMES and WORDS one after another; word_ends: their ends
    values   int64 [3, NAMES]: each member's kind, and the start and end of its value; for a number its value
    parts    int64 [4, MOST_PARTS]: starts and ends of the names and values of properties
    rows     int64 [len(ROW_NAMES), lines]: the fields of the messages, filled by lines.py

A simple line is an object of known names, each once. Its values are texts without escapes, whole numbers of 64 bits,
lists of texts, and properties that are texts and not empty.

NAMES are in the order of rmqctl's own lines: after a name, the next one is tried first.
"""

from __future__ import annotations

from store.formats import properties as props
from store.kernels.cython import Address, Flag, Long, Longs, Matrix, cfunc
from store.kernels.native import bytes_equal, find_special, read_byte

NAMES = (
    "topic", "queue_id", "queue_offset", "log_offset", "size", "msg_id", "uniq_key", "keys", "tags", "flag", "sys_flag",
    "born_timestamp_ms", "born_host", "store_timestamp_ms", "store_host", "reconsume_times",
    "prepared_transaction_offset", "body_crc", "crc_ok", "compression", "body_state", "body", "body_encoding",
    "properties", "property_bytes", "outer_queue_offset", "body_text", "status", "schema",
)  # fmt: skip
(
    OF_TOPIC, OF_QUEUE_ID, OF_QUEUE_OFFSET, OF_LOG_OFFSET, OF_SIZE, OF_MSG_ID, OF_UNIQ_KEY, OF_KEYS, OF_TAGS, OF_FLAG,
    OF_SYS_FLAG, OF_BORN_TIME, OF_BORN_HOST, OF_STORE_TIME, OF_STORE_HOST, OF_RECONSUMED, OF_PREPARED_OFFSET,
    OF_BODY_CRC, OF_CRC_OK, OF_COMPRESSION, OF_BODY_STATE, OF_BODY, OF_ENCODING, OF_PROPERTIES, OF_PROPERTY_BYTES,
    OF_OUTER_OFFSET, OF_BODY_TEXT, OF_STATUS, OF_SCHEMA,
) = range(len(NAMES))  # fmt: skip
NAME_COUNT = len(NAMES)
WORDS = (
    "true", "false", "null", "base64", "utf8", "plain", "stored", "zlib", props.KEYS, props.TAGS, props.UNIQ_KEY,
    props.REAL_TOPIC,
)  # fmt: skip
IS_TRUE, IS_FALSE, IS_NULL, IN_BASE64, IN_UTF8, IS_PLAIN, IS_STORED, IS_ZLIB, KEYS, TAGS, UNIQ_KEY, REAL_TOPIC = range(
    len(NAMES), len(NAMES) + len(WORDS)
)

ROW_NAMES = (
    "line_start", "line_end", "is_sound", "topic", "topic_size", "born_host", "born_host_size", "store_host",
    "store_host_size", "queue_id", "flag", "sys_flag", "reconsume_times", "born_timestamp_ms",
    "prepared_transaction_offset", "store_timestamp_ms", "has_store_time", "is_damaged", "body_end", "property_end",
    "uniq_key", "uniq_key_end", "has_real_topic",
)  # fmt: skip
(
    LINE_START, LINE_END, IS_SOUND, TOPIC_AT, TOPIC_SIZE, BORN_HOST_AT, BORN_HOST_SIZE, STORE_HOST_AT, STORE_HOST_SIZE,
    QUEUE_ID, FLAG, SYS_FLAG, RECONSUMED, BORN_TIME, PREPARED_OFFSET, STORE_TIME, HAS_STORE_TIME, IS_DAMAGED, BODY_END,
    PROPERTY_END, UNIQ_KEY_AT, UNIQ_KEY_END, HAS_REAL_TOPIC,
) = range(len(ROW_NAMES))  # fmt: skip

KIND, FROM, TO = range(3)
ABSENT, TEXT, NUMBER, NULL, TRUE, FALSE, LIST, OBJECT = range(8)
NAME_FROM, NAME_TO, VALUE_FROM, VALUE_TO = range(4)
MOST_PARTS = 64
_TAB, _RETURN, _BLANK, _ZERO = map(ord, "\t\r 0")
_QUOTE, _COMMA, _COLON, _MINUS = map(ord, '",:-')
_BEGIN, _END, _OPEN, _CLOSE = map(ord, "{}[]")
_TENTH = (1 << 63) // 10


@cfunc
def find_members(
    buffer: Address,
    start: Long,
    end: Long,
    is_utf8: Flag,
    words: Address,
    word_ends: Longs,
    values: Matrix,
    parts: Matrix,
) -> Flag:
    """Fill `values` and `parts` from a line; return False if it is not a simple one."""
    code: Long = 0
    for code in range(NAME_COUNT):
        values[KIND, code] = ABSENT
    code = -1
    at = pass_blanks(buffer, start, end)
    if at >= end or read_byte(buffer, at) != _BEGIN:
        return False
    at += 1
    while True:
        at = pass_blanks(buffer, at, end)
        name_end = text_end(buffer, at, end, is_utf8)
        if name_end < 0:
            return False
        code = member_code(buffer, at + 1, name_end, words, word_ends, code + 1)
        if code < 0 or values[KIND, code] != ABSENT:
            return False
        at = pass_blanks(buffer, name_end + 1, end)
        if at >= end or read_byte(buffer, at) != _COLON:
            return False
        at = read_value(buffer, pass_blanks(buffer, at + 1, end), end, is_utf8, words, word_ends, values, parts, code)
        if at < 0:
            return False
        at = pass_blanks(buffer, at, end)
        if at >= end:
            return False
        if read_byte(buffer, at) != _COMMA:
            return read_byte(buffer, at) == _END and pass_blanks(buffer, at + 1, end) == end
        at += 1


@cfunc
def pass_blanks(buffer: Address, at: Long, end: Long) -> Long:
    while at < end and read_byte(buffer, at) in (_BLANK, _TAB, _RETURN):
        at += 1
    return at


@cfunc
def text_end(buffer: Address, at: Long, end: Long, is_utf8: Flag) -> Long:
    """Return the position of the closing quote of the text at `at`; -1 for another value or an escape."""
    if at >= end or read_byte(buffer, at) != _QUOTE:
        return -1
    at = find_special(buffer, at + 1, end, is_utf8)
    return at if at < end and read_byte(buffer, at) == _QUOTE else -1


@cfunc
def member_code(buffer: Address, start: Long, end: Long, words: Address, word_ends: Longs, likely: Long) -> Long:
    """Return the number of a name in NAMES, or -1; `likely` is tried first."""
    size = end - start
    for code in range(likely, NAME_COUNT):
        if word_ends[code + 1] - word_ends[code] == size and bytes_equal(buffer, start, words, word_ends[code], size):
            return code
    for code in range(min(likely, NAME_COUNT)):
        if word_ends[code + 1] - word_ends[code] == size and bytes_equal(buffer, start, words, word_ends[code], size):
            return code
    return -1


@cfunc
def is_word(buffer: Address, start: Long, end: Long, words: Address, word_ends: Longs, word: Long) -> Flag:
    size: Long = word_ends[word + 1] - word_ends[word]
    return end - start == size and bytes_equal(buffer, start, words, word_ends[word], size)


@cfunc
def read_value(
    buffer: Address,
    at: Long,
    end: Long,
    is_utf8: Flag,
    words: Address,
    word_ends: Longs,
    values: Matrix,
    parts: Matrix,
    code: Long,
) -> Long:
    """Read the value of a member; return its end, or -1 if it is not a simple one."""
    if at >= end:
        return -1
    byte = read_byte(buffer, at)
    if byte == _QUOTE:
        stop = text_end(buffer, at, end, is_utf8)
        values[KIND, code], values[FROM, code], values[TO, code] = TEXT, at + 1, stop
        return stop + 1 if stop >= 0 else -1
    if byte == _OPEN:
        values[KIND, code], values[FROM, code] = LIST, at + 1
        return read_list(buffer, at + 1, end, is_utf8, values, code)
    if byte == _BEGIN:
        values[KIND, code] = OBJECT
        return read_parts(buffer, at + 1, end, is_utf8, values, parts) if code == OF_PROPERTIES else -1
    if byte == _MINUS or _ZERO <= byte <= _ZERO + 9:
        return read_number(buffer, at, end, values, code)
    stop = at
    while stop < end and read_byte(buffer, stop) > _COMMA and read_byte(buffer, stop) != _END:
        stop += 1
    for word in range(IS_TRUE, IS_NULL + 1):
        if is_word(buffer, at, stop, words, word_ends, word):
            values[KIND, code] = TRUE if word == IS_TRUE else FALSE if word == IS_FALSE else NULL
            return stop
    return -1


@cfunc
def read_number(buffer: Address, at: Long, end: Long, values: Matrix, code: Long) -> Long:
    """Read a whole number of 64 bits; return its end, or -1."""
    is_negative: Flag = read_byte(buffer, at) == _MINUS
    start = at + 1 if is_negative else at
    at = start
    # Summed as a negative number, as -2^63 has no positive counterpart.
    value: Long = 0
    while at < end:
        digit: Long = read_byte(buffer, at) - _ZERO
        if digit < 0 or digit > 9:
            break
        if value < -_TENTH or (value == -_TENTH and digit > (8 if is_negative else 7)):
            return -1
        value = value * 10 - digit
        at += 1
    if at == start or (read_byte(buffer, start) == _ZERO and (is_negative or at > start + 1)):
        return -1
    values[KIND, code], values[FROM, code] = NUMBER, value if is_negative else -value
    return at


@cfunc
def read_list(buffer: Address, at: Long, end: Long, is_utf8: Flag, values: Matrix, code: Long) -> Long:
    """Read a list of texts; return its end, or -1."""
    at = pass_blanks(buffer, at, end)
    is_first: Flag = True
    while at < end:
        if is_first and read_byte(buffer, at) == _CLOSE:
            values[TO, code] = at
            return at + 1
        stop = text_end(buffer, at, end, is_utf8)
        if stop < 0:
            return -1
        at = pass_blanks(buffer, stop + 1, end)
        if at < end and read_byte(buffer, at) == _CLOSE:
            values[TO, code] = at
            return at + 1
        if at >= end or read_byte(buffer, at) != _COMMA:
            return -1
        at = pass_blanks(buffer, at + 1, end)
        is_first = False
    return -1


@cfunc
def read_parts(buffer: Address, at: Long, end: Long, is_utf8: Flag, values: Matrix, parts: Matrix) -> Long:
    """Read the properties into `parts`, with their number as value; return their end, or -1.

    Names and values are texts, none of them empty, and each name occurs once.
    """
    count: Long = 0
    at = pass_blanks(buffer, at, end)
    if at < end and read_byte(buffer, at) == _END:
        values[FROM, OF_PROPERTIES] = 0
        return at + 1
    while count < MOST_PARTS:
        name_end = text_end(buffer, at, end, is_utf8)
        if name_end <= at + 1:
            return -1
        parts[NAME_FROM, count], parts[NAME_TO, count] = at + 1, name_end
        at = pass_blanks(buffer, name_end + 1, end)
        if at >= end or read_byte(buffer, at) != _COLON:
            return -1
        at = pass_blanks(buffer, at + 1, end)
        value_end = text_end(buffer, at, end, is_utf8)
        if value_end <= at + 1 or is_given(buffer, parts, count):
            return -1
        parts[VALUE_FROM, count], parts[VALUE_TO, count] = at + 1, value_end
        count += 1
        at = pass_blanks(buffer, value_end + 1, end)
        if at < end and read_byte(buffer, at) == _END:
            values[FROM, OF_PROPERTIES] = count
            return at + 1
        if at >= end or read_byte(buffer, at) != _COMMA:
            return -1
        at = pass_blanks(buffer, at + 1, end)
    return -1


@cfunc
def is_given(buffer: Address, parts: Matrix, count: Long) -> Flag:
    """Return whether one of the first `count` properties has the name of the next one."""
    start, size = parts[NAME_FROM, count], parts[NAME_TO, count] - parts[NAME_FROM, count]
    for part in range(count):
        at = parts[NAME_FROM, part]
        if parts[NAME_TO, part] - at == size and bytes_equal(buffer, at, buffer, start, size):
            return True
    return False
