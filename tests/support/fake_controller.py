"""A 5.x master in controller mode, as plainly as AutoSwitchHA allows. Shares nothing with store/ha."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

from tests.support.fake_master import FakeMaster, log_of


class FakeController(FakeMaster):
    """Serves the log of `store` up to `log_end`; `epochs` are (epoch, start).

    handshakes  (from last segment, learner, broker id) of each slave
    """

    def __init__(self, store: Path, log_end: int, epochs: Sequence[tuple[int, int]], *, batch: int = 1000) -> None:
        super().__init__(lambda asked: iter(()))
        self.first, self.log = log_of(store)
        self.segment_size = min((store / "commitlog").iterdir()).stat().st_size
        self.log_end, self.epochs, self.batch = log_end, list(epochs), batch
        self.handshakes: list[tuple[int, int, int]] = []
        self.answer_state = 1
        self.frame_state = 2

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            state, from_last, learner, broker_id = struct.unpack(">ihhq", connection.recv(16, socket.MSG_WAITALL))
            assert state == 1
            self.handshakes.append((from_last, learner, broker_id))
            table = b"".join(struct.pack(">iq", *one) for one in self.epochs)
            last = self.epochs[-1][0] if self.epochs else 0
            connection.sendall(struct.pack(">iiqi", self.answer_state, len(table), self.log_end, last) + table)
            at = self._read_report(connection)
            if at == 0:
                at = self.log_end - self.log_end % self.segment_size if from_last else self.first
            sent = 0
            while at < self.log_end:
                body, epoch = self._body(at)
                head = struct.pack(">iiqiqq", self.frame_state, len(body), at, *epoch, self.log_end)
                if self.cut_after and sent + len(body) > self.cut_after:
                    connection.close()
                    return
                connection.sendall(head + body)
                sent += len(body)
                at += len(body)
            connection.sendall(struct.pack(">iiqiqq", self.frame_state, 0, at, *self.epochs[-1], self.log_end))
            while True:
                self._read_report(connection)

    def _body(self, at: int) -> tuple[bytes, tuple[int, int]]:
        epoch = max((one for one in self.epochs if one[1] <= at), key=lambda one: one[1])
        ends = [start for _, start in self.epochs if start > at]
        stop = min([at + self.batch, at - at % self.segment_size + self.segment_size, self.log_end, *ends])
        return self.log[at - self.first : stop - self.first], epoch

    def _read_report(self, connection: socket.socket) -> int:
        data = connection.recv(12, socket.MSG_WAITALL)
        if len(data) < 12:
            raise OSError("the slave closed")
        state, log_offset = struct.unpack(">iq", data)
        assert state == 2
        self.reports.append(log_offset)
        return int(log_offset)
