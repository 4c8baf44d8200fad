"""The entry of a DLedger log, whose body is one commit-log record.

    0       4      8       16     24    32        36          40         44          48
    | magic | size | index | term | pos | channel | chain CRC | body CRC | body size | record |

magic  1 a message; of DLedger behind 0.3.1.2 also 2 nothing, 3 a change of the group
pos    log offset of the entry; the record's own log offset is pos + 48

Source: DLedgerEntryCoder (dledger 0.3.1.2), DLedgerCommitLog (5.3.3).
"""

from __future__ import annotations

import struct

from store.formats.message import MAGIC_AT, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2

DLEDGER_HEADER = struct.Struct(">iiqqqiiii")
DLEDGER_NAMES = (
    "magic",
    "size",
    "entry_index",
    "term",
    "entry_offset",
    "channel",
    "chain_crc",
    "body_crc",
    "body_size",
)
DLEDGER_MAGICS = (1, 2, 3)
NEWER_MAGICS = (2, 3)
assert DLEDGER_HEADER.size == 48


RECORD_MAGICS = (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2)
SEGMENT_HEAD_SIZE = 256
"""Bytes of a segment that hold the fixed part of its first record, also behind an entry's header."""


def first_record_at(head: bytes | memoryview) -> int | None:
    """Find a segment's first record by its magic: at 0, or behind an entry's header."""
    for at in (0, DLEDGER_HEADER.size):
        if int.from_bytes(head[at + MAGIC_AT : at + MAGIC_AT + 4], "big") in RECORD_MAGICS:
            return at
    return None


def is_dledger_entry(data: bytes | memoryview, log_offset: int) -> bool:
    """Whether an entry that names `log_offset` as its place begins with these bytes."""
    if len(data) < DLEDGER_HEADER.size:
        return False
    magic, _, _, _, pos, *_ = DLEDGER_HEADER.unpack_from(data)
    return magic in DLEDGER_MAGICS and pos == log_offset


def holds_record_entry(head: bytes | memoryview, log_offset: int) -> bool:
    """Tells whether an entry begins here whose numbers fit its place and its record.

    No damage to a plain record makes it one: the record's own magic would have to stand at two places.
    """
    record = DLEDGER_HEADER.size
    if not is_dledger_entry(head, log_offset) or len(head) < record + MAGIC_AT + 4:
        return False
    _, size, index, term, _, _, _, _, body_size = DLEDGER_HEADER.unpack_from(head)
    record_size = int.from_bytes(head[record : record + 4], "big")
    has_record = first_record_at(head) == record and record_size == body_size
    return has_record and size == record + body_size and index >= 0 and term >= 0
