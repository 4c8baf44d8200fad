"""The checkpoint: one 4 KiB page that starts with longs; the rest is zero. No checksum, no version.

    0         8         16        24                      32               40
    | physic  | logics  | index   | master flushed offset | confirm offset | logics offset |
                                    24 and 32: 5.x only                      40: 5.5 only

physic          store time of the last flushed message in the commit log
logics          store time of the last message put into a consume queue
index           end time of the last flushed full index file
confirm offset  5.x: start of the last valid record at the last recovery
logics offset   5.5: start of the record of the newest flushed unit of a queue file; 0 for none

Unknown bytes are kept unchanged.

Source: StoreCheckpoint (4.9.8, 5.3.3, 5.5.0).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

CHECKPOINT_SIZE = 4096
FIELDS = struct.Struct(">qqqqqq")
FIELD_NAMES = (
    "physic_ms",
    "logics_ms",
    "index_ms",
    "master_flushed_offset",
    "confirm_log_offset",
    "logics_log_offset",
)
_COUNT = len(FIELD_NAMES)
SAFETY_MARGIN_MS = 3000
YEAR_10000_MS = 253_402_300_800_000


class CheckpointPage(NamedTuple):
    """The fields, and the bytes after them."""

    physic_ms: int = 0
    logics_ms: int = 0
    index_ms: int = 0
    master_flushed_offset: int = 0
    confirm_log_offset: int = 0
    logics_log_offset: int = 0
    rest: bytes = b""

    def encode(self) -> bytes:
        """Return the whole page, 4096 bytes."""
        return (FIELDS.pack(*self[:_COUNT]) + self.rest).ljust(CHECKPOINT_SIZE, b"\0")

    @property
    def mended(self) -> CheckpointPage:
        """The page with 0 for negative numbers, as no broker writes those."""
        return self._replace(**{name: max(0, getattr(self, name)) for name in FIELD_NAMES})

    def encode_mended(self) -> bytes:
        """Return the whole mended page."""
        return self.mended.encode()

    @property
    def is_possible(self) -> bool:
        """Whether a broker may have written the fields: times up to the year 9999, offsets from 0 on."""
        offsets = (self.master_flushed_offset, self.confirm_log_offset, self.logics_log_offset)
        times = (self.physic_ms, self.logics_ms, self.index_ms)
        return min(*times, *offsets) >= 0 and max(times) < YEAR_10000_MS

    @property
    def min_timestamp_ms(self) -> int:
        """The older of the log's and the queues' time, minus three seconds: files are trusted up to it.

        Source: StoreCheckpoint.getMinTimestamp.
        """
        return max(0, min(self.physic_ms, self.logics_ms) - SAFETY_MARGIN_MS)

    @property
    def min_timestamp_index_ms(self) -> int:
        """The older of min_timestamp_ms and the index's time (StoreCheckpoint.getMinTimestampIndex)."""
        return min(self.min_timestamp_ms, self.index_ms)


def decode_checkpoint(data: bytes) -> CheckpointPage:
    """Read the page from a file's bytes. Zeros follow a short file, as in the broker's mapping."""
    padded = data.ljust(CHECKPOINT_SIZE, b"\0")
    numbers = dict(zip(FIELD_NAMES, FIELDS.unpack_from(padded), strict=True))
    return CheckpointPage(**numbers, rest=padded[FIELDS.size :].rstrip(b"\0"))
