"""MasterLink: a slave's end of the connection to a master.

    report        sends a log offset to the master
    next_header   the head of the next frame, None if none begins in time
    read_body     the next bytes of the log, received directly into the caller's memory

A frame that takes longer than HOUSEKEEPING_INTERVAL_S ends the link, even if bytes still come in.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

from store.engine.ha.protocol import HEADER, HOUSEKEEPING_INTERVAL_S, MOST_FRAME_BYTES, REPORT, FrameHeader
from store.errors import BadRequest, LinkLost, ReplicationError, StoreIOError
from store.layout import parse_whole_number

CONNECT_TIMEOUT_S = 5.0
_RECEIVE_BUFFER_BYTES = 4 << 20


class Address(NamedTuple):
    """Host and port of one end."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse HOST:PORT or [IPV6]:PORT; BadRequest for another text."""
        host, _, port = text.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        number = parse_whole_number(port)
        if not bare or number is None or not number < 1 << 16:
            raise BadRequest(f"an address is HOST:PORT, not {text[:80]!r}")
        return cls(bare, number)

    def listen(self) -> socket.socket:
        """Listen at this address, at a free port for port 0; StoreIOError if that fails."""
        try:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            return socket.create_server(self, family=family)
        except OSError as error:
            raise StoreIOError.from_os(error, doing=f"listen on {self}") from error


class MasterLink:
    """A connection to the master at `address`; `stall_s` is the time limit for one frame."""

    head_size = HEADER.size
    begins_at_first = False
    """Whether a report of 0 makes the master begin at its first segment, not at its last."""

    def __init__(self, address: Address, *, stall_s: float = HOUSEKEEPING_INTERVAL_S) -> None:
        self.address = address
        self._stall_s = stall_s
        self._head = bytearray(self.head_size)
        self._head_filled = 0
        self._began = time.monotonic()
        with self._errors("connect to the master"):
            self._socket = socket.create_connection(address, CONNECT_TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def report(self, log_offset: int) -> None:
        """Send `log_offset` to the master."""
        self._send(self._encode_report(log_offset))

    def _send(self, data: bytes) -> None:
        with self._errors("report to the master"):
            self._socket.settimeout(self._stall_s)
            self._socket.sendall(data)

    def _encode_report(self, log_offset: int) -> bytes:
        return REPORT.pack(log_offset)

    def _decode_head(self, head: bytearray) -> FrameHeader:
        return FrameHeader(*HEADER.unpack(head))

    def next_header(self, wait_s: float) -> FrameHeader | None:
        """Return the next frame's head; None if it is not whole within `wait_s`. Call read_body next."""
        deadline = time.monotonic() + wait_s
        view = memoryview(self._head)
        while self._head_filled < self.head_size:
            count = self._receive([view[self._head_filled :]], deadline)
            if count == 0:
                self._refuse_stall()
                return None
            self._head_filled += count
        header = self._decode_head(self._head)
        if not 0 <= header.size <= MOST_FRAME_BYTES:
            raise ReplicationError(
                f"{self.address} announces a frame of {header.size} bytes; a master sends 0 to {MOST_FRAME_BYTES}",
                offset=header.log_offset,
                hint="is this the HA port of a master (haListenPort, by default listenPort + 1)?",
            )
        self._head_filled = 0
        if header.is_heartbeat:
            self._began = time.monotonic()
        return header

    def read_body(self, body: memoryview) -> None:
        """Fill `body`.

        The same call takes the bytes of the next frame's head that are there already."""
        filled, head = 0, memoryview(self._head)
        while filled < len(body):
            count = self._receive([body[filled:], head], time.monotonic() + self._stall_s)
            filled += count
            if filled < len(body):
                self._refuse_stall()
        self._head_filled = filled - len(body)
        self._began = time.monotonic()

    def _refuse_stall(self) -> None:
        if time.monotonic() - self._began > self._stall_s:
            raise LinkLost(f"the master at {self.address} sent no whole frame for {self._stall_s:g} seconds")

    def _receive(self, parts: list[memoryview], deadline: float) -> int:
        """Receive some bytes into `parts`; 0 if none came in time. LinkLost if the master closed."""
        with self._errors("receive from the master"):
            try:
                # A timeout of 0 would make the socket non-blocking.
                self._socket.settimeout(max(deadline - time.monotonic(), 0.0001))
                count = self._socket.recvmsg_into(parts)[0]
            except TimeoutError:
                return 0
        if count == 0:
            raise LinkLost(f"the master at {self.address} closed the connection")
        return count

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise LinkLost(f"cannot {doing} at {self.address}: {reason}", errno=error.errno) from error
