"""The bytes on a replication link.

Integers are big-endian; there is no handshake, no version and no checksum.

    slave → master, 8 bytes            master → slave, 12 + n bytes
    0                                  0                8           12
    | long slave's log end |           | long log offset | int n    | n bytes of the log |

    first report R    0: the master begins at its last segment; else at R, whether the log has it or not
    later reports     acknowledge; only the newest in the buffer counts
    n = 0             a heartbeat; its log offset is the next one that will be sent
    a frame           never crosses a segment's end, but may end within a record

Source: HAConnection, HAService (4.9.8); DefaultHAConnection, DefaultHAClient (5.3.3).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

REPORT = struct.Struct(">q")
HEADER = struct.Struct(">qi")
assert (REPORT.size, HEADER.size) == (8, 12)

TRANSFER_BATCH_SIZE = 32 * 1024
"""haTransferBatchSize: the most bytes of the log in one frame."""
MOST_FRAME_BYTES = (4 << 20) - HEADER.size
"""A slave's buffer is 4 MiB, so no master can send a larger frame to one."""
HEARTBEAT_INTERVAL_S = 5.0
HOUSEKEEPING_INTERVAL_S = 20.0


class FrameHeader(NamedTuple):
    """The head of a frame: `size` bytes of the log from `log_offset` on follow."""

    log_offset: int
    size: int

    @property
    def is_heartbeat(self) -> bool:
        return self.size == 0
