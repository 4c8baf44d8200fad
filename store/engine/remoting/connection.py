"""Connection: requests to one server, and the answers to them.

    ask           one request, its answer
    write, read   many requests at once: the answers that came in time, by `opaque`

The server's own requests are skipped.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

from store.engine.ha.link import CONNECT_TIMEOUT_S, Address
from store.errors import LinkLost
from store.formats.remoting import LENGTH, Frame, decode_frame, encode_frame, frame_length

TIMEOUT_S = 10.0
"""The time limit for an answer; a broker waits 5 s for its disk or its slave."""


class Connection:
    """A connection to the server at `address`. LinkLost ends it; a new connection may succeed."""

    def __init__(self, address: Address, timeout_s: float = TIMEOUT_S) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._opaque = 0
        with self._errors("connect"):
            self._socket = socket.create_connection(address, CONNECT_TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._stream = self._socket.makefile("rb")
        self._is_broken = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def is_over(self) -> bool:
        """Whether a new connection is needed: this one failed, or the server closed it while it was idle."""
        if self._is_broken:
            return True
        self._socket.settimeout(0)
        try:
            return self._socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """End the connection."""
        self._stream.close()
        self._socket.close()

    def ask(self, code: int, fields: Mapping[str, str] | None = None) -> Frame:
        """Send a request, and return its answer; LinkLost if none comes."""
        request, problems = self.request(code, fields or {}), list[str]()
        self.write([request])
        answers = self.read([request], problems)
        if problems:
            raise LinkLost(problems[0])
        return answers[request.opaque]

    def request(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> Frame:
        """Make a request with an unused number of this connection."""
        self._opaque += 1
        return Frame(code, self._opaque, fields, body)

    def write(self, requests: Sequence[Frame]) -> int:
        """Send requests, and return the number that may have reached the server whole."""
        for number, request in enumerate(requests):
            try:
                self._socket.settimeout(self._timeout_s)
                self._socket.sendall(encode_frame(request))
            except OSError:
                self._is_broken = True
                # Some bytes of this request, maybe all, may be on their way.
                return number + 1
        return len(requests)

    def read(self, requests: Sequence[Frame], problems: list[str]) -> dict[int, Frame]:
        """Receive the answers to requests; if some are missing, add the reason to `problems`."""
        waiting, found = {request.opaque for request in requests}, dict[int, Frame]()
        deadline = time.monotonic() + self._timeout_s
        try:
            while waiting:
                answer = self._next(waiting, deadline)
                waiting.remove(answer.opaque)
                found[answer.opaque] = answer
        except LinkLost as error:
            self._is_broken = True
            problems.append(error.reason)
        return found

    def _next(self, waiting: set[int], deadline: float) -> Frame:
        """Return the next answer to one of the requests."""
        while True:
            with self._errors("receive"):
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                head = self._stream.read(LENGTH.size)
                data = self._stream.read(frame_length(head)) if len(head) == LENGTH.size else b""
            if not data:
                raise LinkLost(f"{self.address} closed the connection")
            with self._errors("read what came"):
                frame = decode_frame(data)
            if frame.is_answer and frame.opaque in waiting:
                return frame

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise LinkLost(f"{self.address} does not answer within {self._timeout_s:g} seconds") from error
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise LinkLost(f"cannot {doing} at {self.address}: {reason}", errno=error.errno) from error
        except ValueError as error:
            hint = "is this the port of a name server or a broker (not of HA, not of a proxy)?"
            raise LinkLost(f"{self.address} sends no frame of the remoting protocol: {error}", hint=hint) from error
