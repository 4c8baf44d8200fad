"""A master on loopback that sends what a test says, as plainly as the protocol allows. Shares nothing with ours."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

Frame = tuple[int, bytes] | bytes
"""A log offset with bytes of the log, none for a heartbeat; or raw bytes."""
Script = Callable[[int], Iterator[Frame]]
"""The frames for a slave that first reported this log offset; behind the last one the connection stays open."""


class FakeMaster:
    """Answers each connection by `script`; `reports` are all log offsets that slaves told."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._server = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self.reports: list[int] = []
        self.cut_after = 0
        """Close a connection after so many bytes; 0 never."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing alone would not end an accept that is under way.
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for connection in self._connections:
            # Its thread closes it: the descriptor of a socket closed under its reader may soon be another's.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve_and_close, args=(connection,), daemon=True).start()

    def _serve_and_close(self, connection: socket.socket) -> None:
        with connection:
            self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            asked = self._read_report(connection)
            sent = 0
            for frame in self._script(asked):
                data = frame if isinstance(frame, bytes) else struct.pack(">qi", frame[0], len(frame[1])) + frame[1]
                if self.cut_after and sent + len(data) > self.cut_after:
                    connection.sendall(data[: self.cut_after - sent])
                    connection.close()
                    return
                connection.sendall(data)
                sent += len(data)
            while True:
                self._read_report(connection)

    def _read_report(self, connection: socket.socket) -> int:
        data = connection.recv(8, socket.MSG_WAITALL)
        if len(data) < 8:
            raise OSError("the slave went away")
        self.reports.append(struct.unpack(">q", data)[0])
        return self.reports[-1]


def log_of(store: Path) -> tuple[int, bytes]:
    """Return the first log offset of a store, and the bytes of all its segments."""
    segments = sorted((store / "commitlog").iterdir())
    return int(segments[0].name), b"".join(segment.read_bytes() for segment in segments)


def honest(store: Path, log_end: int, *, first: int | None = None, batch: int = 1000) -> Script:
    """Return a script that sends the log of `store` up to `log_end`, as a broker does, then a heartbeat.

    first  log offset to begin at, in place of the slave's
    """
    start, log = log_of(store)
    size = min((store / "commitlog").iterdir()).stat().st_size
    first = start if first is None else first

    def script(asked: int) -> Iterator[Frame]:
        at = asked or log_end - log_end % size
        while first <= at < log_end:
            stop = min(at + batch, at - at % size + size, log_end)
            yield at, log[at - start : stop - start]
            at = stop
        yield at, b""

    return script
