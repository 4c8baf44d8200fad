"""AutoSwitchLink: a slave's end of the connection to a 5.x master in controller mode.

    slave → master   HANDSHAKE 16   int 1 | short from last segment | short learner | long broker id
    master → slave   HANDSHAKE 20   int 1 | int size | long log end | int last epoch   + (int epoch, long start) …
    slave → master   TRANSFER 12    int 2 | long log offset
    master → slave   TRANSFER 36    int 2 | int size | long log offset | int epoch | long start | long confirm   + data

1. Both tables of epochs are compared: the copy must not reach beyond their common part.
2. The first report has the beginning: 0 is the log's first offset or, if requested, its last segment.
3. The epoch of each frame is noted in the copy's epoch file.

The slave registers as a learner, so the master never counts it as in sync.

Source: AutoSwitchHAClient, AutoSwitchHAConnection (5.3.3).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

from store.engine.ha.link import Address, MasterLink
from store.engine.ha.log_copy import LogCopy
from store.engine.ha.protocol import FrameHeader
from store.errors import Diverged, LinkLost, ReplicationError
from store.files.filesystem import Filesystem
from store.structures.epochs.files import Epoch, EpochFile, consistent_end

HANDSHAKE, TRANSFER = 1, 2
SEND_HANDSHAKE = struct.Struct(">ihhq")
SEND_TRANSFER = struct.Struct(">iq")
RECEIVE_HANDSHAKE = struct.Struct(">iiqi")
RECEIVE_TRANSFER = struct.Struct(">iiqiqq")
EPOCH = struct.Struct(">iq")
assert (SEND_HANDSHAKE.size, SEND_TRANSFER.size) == (16, 12)
assert (RECEIVE_HANDSHAKE.size, RECEIVE_TRANSFER.size, EPOCH.size) == (20, 36, 12)
MOST_EPOCHS = 1000
HANDSHAKE_TIMEOUT_S = 5.0
LEARNER_ID = -1
"""Brokers of a controller have no negative ids."""


def connector(
    copy: LogCopy, *, has_controller: bool, from_last_segment: bool = False
) -> Callable[[Address, float], MasterLink]:
    """Return the function that connects `copy` to its master, whose brokers may have a controller."""
    if not has_controller:
        return lambda address, stall_s: MasterLink(address, stall_s=stall_s)
    epochs = EpochFile(copy.root, Filesystem())
    return lambda address, stall_s: AutoSwitchLink(
        address, stall_s=stall_s, epochs=epochs, copy_end=lambda: copy.end, from_last_segment=from_last_segment
    )


class AutoSwitchLink(MasterLink):
    """A connection with its handshake; `copy_end` returns the log offset of the copy's end."""

    head_size = RECEIVE_TRANSFER.size
    begins_at_first = True

    def __init__(
        self,
        address: Address,
        *,
        stall_s: float,
        epochs: EpochFile,
        copy_end: Callable[[], int],
        from_last_segment: bool,
    ) -> None:
        super().__init__(address, stall_s=stall_s)
        self._epochs = epochs
        try:
            self._send(SEND_HANDSHAKE.pack(HANDSHAKE, from_last_segment, True, LEARNER_ID))
            self._compare_epochs(copy_end())
        except BaseException:
            self.close()
            raise

    def _compare_epochs(self, copy_end: int) -> None:
        state, size, log_end, _ = RECEIVE_HANDSHAKE.unpack(self._receive_whole(RECEIVE_HANDSHAKE.size))
        if state != HANDSHAKE or size % EPOCH.size or not 0 <= size <= MOST_EPOCHS * EPOCH.size:
            raise ReplicationError(
                f"{self.address} answers the handshake with state {state} and {size} bytes of epochs",
                hint="is this the HA port of a master in controller mode?",
            )
        table = [Epoch(*one) for one in EPOCH.iter_unpack(self._receive_whole(size))]
        self._epochs.drop_from(copy_end)
        own = self._epochs.entries
        common = consistent_end(own, copy_end, table, log_end) if own else copy_end
        if common is None:
            raise Diverged("the copy and the master have no epoch in common", offset=copy_end)
        if common < copy_end:
            raise Diverged(
                f"the copy ends at {copy_end}, and by their epochs both are the same up to {common} only",
                offset=common,
                hint="nothing was overwritten; copy into another folder and compare both",
            )

    def _receive_whole(self, size: int) -> bytes:
        data, filled, deadline = memoryview(bytearray(size)), 0, time.monotonic() + HANDSHAKE_TIMEOUT_S
        while filled < size:
            count = self._receive([data[filled:]], deadline)
            if count == 0 and time.monotonic() >= deadline:
                raise LinkLost(
                    f"the master at {self.address} did not answer the handshake in {HANDSHAKE_TIMEOUT_S:g} s"
                )
            filled += count
        return bytes(data)

    def _encode_report(self, log_offset: int) -> bytes:
        return SEND_TRANSFER.pack(TRANSFER, log_offset)

    def _decode_head(self, head: bytearray) -> FrameHeader:
        state, size, log_offset, epoch, start, _ = RECEIVE_TRANSFER.unpack(head)
        if state != TRANSFER:
            raise ReplicationError(f"{self.address} sends a frame of state {state}, {TRANSFER} is a transfer")
        if size > 0:
            self._epochs.note(Epoch(epoch, start))
        return FrameHeader(log_offset, size)
