"""Connections that a served store has to bear, on its control socket, its HA port and its metrics page.

    idle      sends nothing
    half      begins a request, and goes on by a byte now and then
    garbage   sends random bytes
    deaf      asks for much, and takes no answer

A connection that is ended comes back as another kind.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, product
from pathlib import Path

from store.engine.serving.frames import SIZES

KINDS = ("idle", "half", "garbage", "deaf")
PLACES = ("control", "ha", "metrics")
TICK_S = 0.02
TICKS_OF_A_ROUND = 50
_CALL = json.dumps({"call": "stats"}).encode()
_REQUESTS = {
    "control": SIZES.pack(len(_CALL), 0) + _CALL,
    "ha": struct.pack(">q", 1),
    "metrics": b"GET /metrics HTTP/1.0\r\n\r\n",
}


@dataclass
class Hostile:
    """`count` connections to the store at `root`, whose ports are `ha_port` and `metrics_port`."""

    root: Path
    count: int
    ha_port: int
    metrics_port: int
    made: Counter[str] = field(default_factory=Counter)
    """Connections made, by place and kind."""
    _ending: threading.Event = field(default_factory=threading.Event)
    _open: list[tuple[socket.socket, str, str] | None] = field(default_factory=list)

    def run(self) -> None:
        """Keep up the connections until end()."""
        chosen = cycle(product(PLACES, KINDS))
        self._open = [None] * self.count
        at_once = max(1, self.count // TICKS_OF_A_ROUND)
        for first in cycle(range(0, self.count, at_once)):
            for number in range(first, min(first + at_once, self.count)):
                before = self._open[number]
                if before is None or not self._go_on(*before):
                    self._open[number] = self._connect(*next(chosen))
            if self._ending.wait(TICK_S):
                break
        for one in filter(None, self._open):
            one[0].close()

    def end(self) -> None:
        self._ending.set()

    def _connect(self, place: str, kind: str) -> tuple[socket.socket, str, str] | None:
        family = socket.AF_UNIX if place == "control" else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            with contextlib.suppress(BlockingIOError):
                connection.connect(self._address(place))
        except OSError:
            # The owner is away, or its queue is full.
            connection.close()
            return None
        self.made[f"{place} {kind}"] += 1
        return connection, place, kind

    def _address(self, place: str) -> str | tuple[str, int]:
        if place == "control":
            return str(self.root / ".rmqctl" / "control.sock")
        return "127.0.0.1", self.ha_port if place == "ha" else self.metrics_port

    def _go_on(self, connection: socket.socket, place: str, kind: str) -> bool:
        """Whether the connection still stands; sends what its kind sends."""
        try:
            for data in self._data(place, kind):
                connection.send(data)
            return kind == "deaf" or bool(connection.recv(4096))
        except BlockingIOError:
            return True
        except OSError:
            connection.close()
            return False

    def _data(self, place: str, kind: str) -> Iterator[bytes]:
        if kind == "half":
            yield _REQUESTS[place][:1]
        elif kind == "garbage":
            yield random.randbytes(64)
        elif kind == "deaf":
            yield _REQUESTS[place]
