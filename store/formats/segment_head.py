"""The head of a segment; its first record may be inside an entry of a group's log."""

from __future__ import annotations

import struct

from store.formats.message import MAGIC_AT, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2

RECORD_MAGICS = (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2)
ENTRY_HEADER = struct.Struct(">iiqqqiiii")
"""Magic, size, index, term, pos, channel, two CRCs, and the record's size (store.formats.dledger)."""
ENTRY_MAGICS = (1, 2, 3)
RECORD_PLACES = (0, ENTRY_HEADER.size)
"""Possible positions of a segment's first record: plain, or after an entry's header."""
assert ENTRY_HEADER.size == 48
SEGMENT_HEAD_SIZE = 256
"""Bytes that include the fixed part of a segment's first record, even after an entry's header."""


def first_record_at(head: bytes | memoryview) -> int | None:
    """Return the position of a segment's first record by its magic: 0, or after an entry's header."""
    for at in RECORD_PLACES:
        if int.from_bytes(head[at + MAGIC_AT : at + MAGIC_AT + 4], "big") in RECORD_MAGICS:
            return at
    return None


def is_entry(data: bytes | memoryview, log_offset: int) -> bool:
    """Return whether these bytes begin an entry with `log_offset` as its pos."""
    if len(data) < ENTRY_HEADER.size:
        return False
    magic, _, _, _, pos, *_ = ENTRY_HEADER.unpack_from(data)
    return magic in ENTRY_MAGICS and pos == log_offset


def holds_record_entry(head: bytes | memoryview, log_offset: int) -> bool:
    """Return whether an entry begins here, with numbers that match its position and its record.

    No damage turns a plain record into one, as the record's magic would be needed at another position.
    """
    record = ENTRY_HEADER.size
    if not is_entry(head, log_offset) or len(head) < record + MAGIC_AT + 4:
        return False
    _, size, index, term, _, _, _, _, body_size = ENTRY_HEADER.unpack_from(head)
    record_size = int.from_bytes(head[record : record + 4], "big")
    has_record = first_record_at(head) == record and record_size == body_size
    return has_record and size == record + body_size and index >= 0 and term >= 0
