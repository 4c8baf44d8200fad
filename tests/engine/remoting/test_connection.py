"""A connection: the limits of its waits, what may have reached the server, and when a new one is needed."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from store.engine.ha.link import Address
from store.engine.remoting.connection import Connection
from store.errors import LinkLost
from store.formats.remoting import Frame, encode_frame
from tests.support.fake_broker import FakeBroker


@pytest.fixture
def connection() -> Iterator[Connection]:
    with FakeBroker({"Orders": 1}) as broker, Connection(Address("127.0.0.1", broker.port), 5.0) as made:
        yield made


@pytest.mark.parametrize("before_s", [0.001, 0.0, 60.0, None])
def test_each_request_has_the_whole_time_whatever_the_wait_before_it_left(
    before_s: float | None, connection: Connection
) -> None:
    connection._socket.settimeout(before_s)
    assert connection.write([connection.request(26, {})]) == 1
    assert connection._socket.gettimeout() == 5.0


def test_requests_are_numbered_from_one_and_not_held_back(connection: Connection) -> None:
    assert [connection.request(26, {}).opaque for _ in range(3)] == [1, 2, 3]
    assert connection._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def with_socket(connection: Connection, monkeypatch: pytest.MonkeyPatch, **calls: Any) -> None:
    monkeypatch.setattr(connection, "_socket", SimpleNamespace(settimeout=lambda _: None, close=lambda: None, **calls))


@pytest.mark.parametrize(("fails_at", "reached", "is_over"), [(0, 1, True), (1, 2, True), (2, 3, True), (3, 3, False)])
def test_the_request_that_failed_may_have_reached_the_server_and_no_later_one(
    fails_at: int, reached: int, is_over: bool, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []

    def sendall(data: bytes) -> None:
        if len(sent) == fails_at:
            raise OSError
        sent.append(data)

    requests = [connection.request(26, {}) for _ in range(3)]
    with_socket(connection, monkeypatch, sendall=sendall, recv=lambda *_: b"more")
    assert (connection.write(requests), len(sent), connection.is_over) == (reached, fails_at, is_over)


@pytest.mark.parametrize(
    ("peeked", "is_over"), [(BlockingIOError(), False), (b"\0", False), (b"", True), (ConnectionResetError(), True)]
)
def test_a_connection_is_over_when_the_server_closed_it(
    peeked: bytes | OSError, is_over: bool, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recv(size: int, flags: int) -> bytes:
        assert (size, flags) == (1, socket.MSG_PEEK)
        if isinstance(peeked, OSError):
            raise peeked
        return peeked

    with_socket(connection, monkeypatch, recv=recv)
    assert connection.is_over is is_over


def test_a_connection_is_closed_on_leaving() -> None:
    with FakeBroker({"Orders": 1}) as broker:
        with Connection(Address("127.0.0.1", broker.port), 5.0) as connection:
            ends = connection._socket, connection._stream
        assert (ends[0].fileno(), ends[1].closed) == (-1, True)


def test_frames_that_are_no_answer_to_a_request_are_passed_over(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = [Frame(0, 1), Frame(0, 9, flag=1), Frame(5, 1, flag=1), Frame(6, 1, flag=1)]
    stream, waits = io.BytesIO(b"".join(map(encode_frame, frames))), list[float]()
    with_socket(connection, monkeypatch)
    monkeypatch.setattr(connection, "_stream", stream)
    monkeypatch.setattr(connection._socket, "settimeout", waits.append)
    assert connection._next({1, 2}, 0.0).code == 5
    assert waits == [0.001] * 3
    assert connection._next({1}, time.monotonic() + 60).code == 6
    assert 50 < waits[-1] <= 60
    with pytest.raises(LinkLost, match="closed the connection"):
        connection._next({1}, 0.0)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(5, "Input/output error"), "cannot x at 127.0.0.1:{}: input/output error"),
        (OSError("Odd"), "cannot x at 127.0.0.1:{}: odd"),
        (TimeoutError(), "127.0.0.1:{} does not answer within 5 seconds"),
        (ValueError("no JSON"), "127.0.0.1:{} sends no frame of the remoting protocol: no JSON"),
    ],
)
def test_each_error_is_a_lost_link_with_its_reason(error: Exception, reason: str, connection: Connection) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(LinkLost) as lost, connection._errors("x"):
        fail()
    assert lost.value.reason == reason.format(connection.address.port)
    assert lost.value.errno == getattr(error, "errno", None)
