"""The columns that a scan of the commit log fills for each record, and the outcomes of a scan.

Column is the row order of the int64 array [len(Column), capacity] that the scan kernel writes.
Positions are bytes inside the segment, sizes are bytes, `log_offset` is the record's own log offset field.
"""

from __future__ import annotations

from enum import IntEnum


class Column(IntEnum):
    """The rows of the array, by number."""

    POSITION = 0
    SIZE = 1
    BODY_POSITION = 2
    BODY_SIZE = 3
    TOPIC_POSITION = 4
    TOPIC_SIZE = 5
    PROPERTIES_POSITION = 6
    PROPERTIES_SIZE = 7
    QUEUE_ID = 8
    QUEUE_OFFSET = 9
    LOG_OFFSET = 10
    SYS_FLAG = 11
    STORE_TIMESTAMP_MS = 12
    BODY_CRC = 13


COLUMN_NAMES = tuple(column.name.lower() for column in Column)


class ScanOutcome(IntEnum):
    """The reason why a scan returned."""

    FULL = 0  # the columns are full; the scan can continue
    LIMIT = 1  # the readable bytes end at a record boundary
    BLANK = 2  # an end-of-file blank: the log continues in the next segment
    END = 3  # nothing was written here: zeros, or too few bytes left for a size and a magic
    DAMAGE = 4  # bytes that are no record


class DamageReason(IntEnum):
    """The fault at the position of damage."""

    NONE = 0
    BAD_MAGIC = 1
    BAD_SIZE = 2
    SIZE_BEYOND_SEGMENT = 3
    BODY_BEYOND = 4
    NEGATIVE_TOPIC = 5
    TOPIC_BEYOND = 6
    PROPERTIES_BEYOND = 7
    LENGTH_MISMATCH = 8
    BAD_DELAY_LEVEL = 9
    BAD_CRC = 10
    BAD_SELF_OFFSET = 11
    BAD_PROPERTIES_CRC = 12
    UNREADABLE = 13
    TORN_PROPERTIES = 14
    V2_RECORD = 15
    ZEROS = 16

    def describe(self) -> str:
        """Return the reason as a clause for people."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    DamageReason.NONE: "no damage",
    DamageReason.BAD_MAGIC: "unknown magic",
    DamageReason.BAD_SIZE: "total size is too small for a record",
    DamageReason.SIZE_BEYOND_SEGMENT: "total size reaches beyond the segment",
    DamageReason.BODY_BEYOND: "body reaches beyond the record",
    DamageReason.NEGATIVE_TOPIC: "topic length is negative",
    DamageReason.TOPIC_BEYOND: "topic reaches beyond the record",
    DamageReason.PROPERTIES_BEYOND: "properties reach beyond the record",
    DamageReason.LENGTH_MISMATCH: "total size differs from the sum of the fields",
    DamageReason.BAD_DELAY_LEVEL: "delay level is not a number",
    DamageReason.BAD_CRC: "bad body CRC",
    DamageReason.BAD_SELF_OFFSET: "stored log offset differs from the place",
    DamageReason.BAD_PROPERTIES_CRC: "bad properties CRC",
    DamageReason.UNREADABLE: "pages that can't be read (a bad sector, or the file was shortened)",
    DamageReason.TORN_PROPERTIES: "properties end in zeros, and no record follows: a power cut kept a part of it",
    DamageReason.V2_RECORD: "a record of 5.x (V2 magic), which a 4.x broker cannot read",
    DamageReason.ZEROS: "zeros in place of a record",
}
assert set(_DESCRIPTIONS) == set(DamageReason)
