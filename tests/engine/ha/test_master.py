"""One slave's connection: its reports in any pieces, where it begins, and the frames that it gets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.engine.ha.master import _Connection
from store.engine.ha.protocol import HEADER, REPORT

END, SEGMENT = 100, 30


class Socket:
    """Gives some pieces, raises an error among them, and takes what is sent in parts of so many bytes."""

    def __init__(self, pieces: list[bytes | Exception], at_once: int = 1000) -> None:
        self.pieces, self.at_once, self.sent = pieces, at_once, b""

    def setsockopt(self, *given: object) -> None: ...

    def settimeout(self, seconds: float) -> None:
        self.timeout = seconds

    def recv(self, size: int) -> bytes:
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, Exception):
            raise piece
        return piece

    def sendmsg(self, parts: list[bytes]) -> int:
        data = b"".join(map(bytes, parts))[: self.at_once]
        self.sent += data
        return len(data)

    def sendall(self, data: memoryview) -> None:
        self.sent += bytes(data)


def connection(*pieces: bytes | Exception, at_once: int = 1000, **log: Any) -> Any:
    """Make a connection; `acknowledged` of its master, and the reasons of its end, are lists."""
    socket, ended, acknowledged = Socket(list(pieces), at_once), list[str](), list[int]()
    peer = SimpleNamespace(
        connection=socket, address=("10.0.0.1", 7), end_reason="", requests=[], end=lambda: None,
        note_request=lambda: peer.requests.append(1),
    )  # fmt: skip
    options = SimpleNamespace(housekeeping_s=5.0, heartbeat_s=-1.0, batch_size=64)
    master = SimpleNamespace(
        log=SimpleNamespace(max_offset=END, segment_size=SEGMENT, **log), options=options,
        acknowledge=acknowledged.append, forget=lambda one, reason: ended.append(reason),
    )  # fmt: skip
    made: Any = _Connection(cast(Any, master), cast(Any, peer))
    made.test = SimpleNamespace(socket=socket, peer=peer, ended=ended, acknowledged=acknowledged)
    return made


def report(*offsets: int) -> bytes:
    return b"".join(map(REPORT.pack, offsets))


CLOSED = "the slave closed"


@pytest.mark.parametrize(
    ("pieces", "acknowledged", "requests", "reason"),
    [
        ([], [], 0, CLOSED),
        ([report(5)], [5], 1, CLOSED),
        ([report(5, 9)], [9], 1, CLOSED),
        ([report(5)[:3], report(5)[3:]], [5], 1, CLOSED),
        ([report(5, 9)[:11], report(5, 9)[11:]], [5, 9], 2, CLOSED),
        ([report(5, 9, 12)[:19], report(5, 9, 12)[19:]], [9, 12], 2, CLOSED),
        ([report(0), report(END)], [0, END], 2, CLOSED),
        ([report(-1)], [], 0, "a report of -1, the log ends at 100"),
        ([report(101), report(50)], [50], 2, CLOSED),
        ([report(50), report(101)], [50], 1, "a report of 101, the log ends at 100"),
        ([report(50), TimeoutError()], [50], 1, "no report for 5 seconds"),
        ([OSError("reset")], [], 0, "reset"),
    ],
)
def test_reports_count_in_whatever_pieces_they_come(
    pieces: list[bytes | Exception], acknowledged: list[int], requests: int, reason: str
) -> None:
    made = connection(*pieces)
    assert (made._read(), made.test.acknowledged, len(made.test.peer.requests)) == (reason, acknowledged, requests)
    assert made.acknowledged == max(acknowledged, default=0)
    assert (str(made.address), made.test.socket.timeout, made.last_was_heartbeat) == ("10.0.0.1:7", 5.0, False)


@pytest.mark.parametrize(("asked", "begin"), [(0, 90), (1, 1), (70, 70)])
def test_an_empty_slave_begins_at_the_last_segment_and_another_where_it_asks(asked: int, begin: int) -> None:
    assert connection()._begin(asked) == begin


@pytest.mark.parametrize("at_once", [1000, 14, 12, 5])
def test_the_log_is_sent_in_frames_and_a_heartbeat_where_it_ends(at_once: int) -> None:
    bodies: list[memoryview | None] = [memoryview(b"abc"), memoryview(b"de"), None, memoryview(b"f"), None]
    asked, beats = list[tuple[int, int]](), list[bool]()

    def read(log_offset: int, size: int) -> memoryview | None:
        beats.append(made.last_was_heartbeat)
        asked.append((log_offset, size))
        if not bodies:
            made._is_over = True
            return None
        return bodies.pop(0)

    made = connection(at_once=at_once, read=read)
    made._send(40)
    assert asked == [(at, 64) for at in (40, 43, 45, 45, 46, 46)]
    frames = [(40, b"abc"), (43, b"de"), (45, b""), (45, b"f"), (46, b""), (46, b"")]
    assert made.test.socket.sent == b"".join(HEADER.pack(at, len(body)) + body for at, body in frames)
    assert beats == [False, False, False, True, False, True]


def test_a_connection_ends_once_with_its_first_reason() -> None:
    made = connection()
    made.end("first")
    made.end("second")
    assert (made.test.ended, made._has_asked.is_set()) == (["first"], True)
    made = connection()
    made.test.peer.end_reason = "idle"
    made.end("first")
    assert made.test.ended == ["idle"]
