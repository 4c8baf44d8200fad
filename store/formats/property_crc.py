"""Write and read the property `__CRC32#`, a CRC of a whole record after its other bytes (5.x).

    "__CRC32#" | 0x01 | ten digits | 0x02        the last 20 bytes of the record, counted among its properties

The digits are those of the CRC, the lowest first, padded with zeros at the end. The CRC covers all bytes before the
block. So a record that is copied to another log offset, or with another store time, has a wrong block.

Source: CommitLog.doAppend, MessageDecoder.createCrc32 (5.3.3).
"""

from __future__ import annotations

from store.formats.java import crc32
from store.formats.properties import (
    NAME_VALUE_SEPARATOR,
    PROPERTIES_CRC,
    PROPERTY_SEPARATOR,
    decode_properties,
    encode_properties,
)

DIGITS = 10
_NAME = (PROPERTIES_CRC + NAME_VALUE_SEPARATOR).encode()
_END = PROPERTY_SEPARATOR.encode()
BLOCK_SIZE = len(_NAME) + DIGITS + len(_END)
assert BLOCK_SIZE == 20
PLACEHOLDER = _NAME + b"0" * DIGITS + _END
"""Properties that end with it have room for the block."""


def with_crc(record: bytes) -> bytes:
    """Return a record with its CRC in place of the placeholder at its end."""
    kept = record[:-BLOCK_SIZE]
    return kept + _NAME + str(crc32(kept))[::-1].ljust(DIGITS, "0").encode() + _END


def stored_crc(record: bytes | memoryview) -> int | None:
    """Return the CRC in the block at the record's end, None without a block."""
    block = bytes(record[-BLOCK_SIZE:])
    digits = block[len(_NAME) : -1]
    if not (block.startswith(_NAME) and block.endswith(_END) and digits.isdigit()):
        return None
    return int(digits[::-1])


def has_own_crc(record: bytes | memoryview) -> bool:
    """Return whether the record has a block that matches its bytes."""
    return stored_crc(record) == crc32(bytes(record[:-BLOCK_SIZE]))


def without_crc(properties: bytes) -> bytes:
    """Remove the CRC of a received property string, as a broker does before it appends its own."""
    if _NAME not in properties:
        return properties
    values = decode_properties(properties)
    values.pop(PROPERTIES_CRC, None)
    return encode_properties(values)
