"""A slave of a master, frame by frame."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from store import open_store
from store.engine.ha.link import Address
from store.engine.ha.master import CommitLogSource, HAMaster, MasterOptions
from tests.support.stores import SMALL

SIZE = SMALL["mappedFileSizeCommitLog"]
QUICK = MasterOptions(heartbeat_s=0.05, housekeeping_s=300, slave_timeout_s=0.2, fall_behind_max=SIZE)


@contextlib.contextmanager
def sending(store: Path, options: MasterOptions) -> Iterator[HAMaster]:
    with (
        open_store(store) as opened,
        HAMaster(CommitLogSource(opened.opened.log), Address("127.0.0.1", 0), options) as master,
    ):
        yield master


class Slave:
    """A connection that speaks the protocol by hand."""

    def __init__(self, master: HAMaster, first: int) -> None:
        self._socket = socket.create_connection(master.address, 60)
        self.report(first)

    def report(self, log_offset: int) -> None:
        self.send(struct.pack(">q", log_offset))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def frame(self) -> tuple[int, bytes]:
        self._socket.settimeout(60)
        head = self._socket.recv(12, socket.MSG_WAITALL)
        if len(head) < 12:
            raise EOFError
        offset, size = struct.unpack(">qi", head)
        return offset, self._socket.recv(size, socket.MSG_WAITALL) if size else b""

    def is_closed(self) -> bool:
        with contextlib.suppress(EOFError, OSError):
            while True:
                self.frame()
        return True
