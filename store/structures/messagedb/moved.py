"""Give a moved op record the new log offset of its half message.

Source: TransMessageRocksDBStore.deletePrepareMessage (5.5.0).
"""

from __future__ import annotations

from collections.abc import Callable

from store.formats.java import parse_long
from store.formats.message import PROPERTIES_SIZE, decode_record
from store.formats.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR_BYTE
from store.formats.property_crc import has_own_crc, with_crc
from store.formats.topics import ROCKSDB_OP_TOPIC
from store.structures.messagedb.expect import TRANS_OFFSET

MARK = ROCKSDB_OP_TOPIC.encode()
"""A record without these bytes stays as it is."""
_NAME = f"{TRANS_OFFSET}{NAME_VALUE_SEPARATOR}".encode()


def moved_end(record: bytes, find: Callable[[int], int]) -> bytes:
    """Return the record with its half message's new log offset, -1 for none; other records as they are.

    find  returns the new log offset of a record at an old one, -1 if it was not moved
    """
    stored = decode_record(record)
    old = parse_long(stored.properties.get(TRANS_OFFSET, "")) if stored.topic == ROCKSDB_OP_TOPIC else None
    if old is None:
        return record
    parts = stored.property_text.split(PROPERTY_SEPARATOR_BYTE)
    new = PROPERTY_SEPARATOR_BYTE.join(
        [b"%s%d" % (_NAME, find(old)) if one.startswith(_NAME) else one for one in parts]
    )
    before = record[4 : len(record) - len(stored.property_text) - PROPERTIES_SIZE.size]
    rest = before + PROPERTIES_SIZE.pack(len(new)) + new
    whole = (len(rest) + 4).to_bytes(4, "big") + rest
    return with_crc(whole) if has_own_crc(record) else whole
