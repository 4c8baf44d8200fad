"""The head of a segment, whose first record may be in an entry of a group's log."""

from __future__ import annotations

import struct

from store.formats.message import MAGIC_AT, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2

RECORD_MAGICS = (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2)
ENTRY_HEADER = struct.Struct(">iiqqqiiii")
"""Magic, size, index, term, place, channel, two CRCs, and the record's size (store.formats.dledger)."""
ENTRY_MAGICS = (1, 2, 3)
RECORD_PLACES = (0, ENTRY_HEADER.size)
"""Where a record can begin: by itself, or behind an entry's header."""
assert ENTRY_HEADER.size == 48
SEGMENT_HEAD_SIZE = 256
"""Bytes of a segment that hold the fixed part of its first record, also behind an entry's header."""


def first_record_at(head: bytes | memoryview) -> int | None:
    """Find a segment's first record by its magic: at 0, or behind an entry's header."""
    for at in RECORD_PLACES:
        if int.from_bytes(head[at + MAGIC_AT : at + MAGIC_AT + 4], "big") in RECORD_MAGICS:
            return at
    return None


def is_entry(data: bytes | memoryview, log_offset: int) -> bool:
    """Return whether an entry that names `log_offset` as its place begins with these bytes."""
    if len(data) < ENTRY_HEADER.size:
        return False
    magic, _, _, _, pos, *_ = ENTRY_HEADER.unpack_from(data)
    return magic in ENTRY_MAGICS and pos == log_offset


def holds_record_entry(head: bytes | memoryview, log_offset: int) -> bool:
    """Tell whether an entry begins here whose numbers fit its place and its record.

    No damage to a plain record makes it one: the record's own magic would have to stand at two places.
    """
    record = ENTRY_HEADER.size
    if not is_entry(head, log_offset) or len(head) < record + MAGIC_AT + 4:
        return False
    _, size, index, term, _, _, _, _, body_size = ENTRY_HEADER.unpack_from(head)
    record_size = int.from_bytes(head[record : record + 4], "big")
    has_record = first_record_at(head) == record and record_size == body_size
    return has_record and size == record + body_size and index >= 0 and term >= 0
