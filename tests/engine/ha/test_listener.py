"""The listener under all ports: how many connections it takes, which it ends, and what it does after an error."""

from __future__ import annotations

import errno
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from store.engine.ha.listener import Limits, Listener, Peer
from store.errors import StoreClosed
from tests.support.threads import PATIENCE_S, eventually

LONG_S = 3600.0
ASK, WORK, DEFECT, FOREIGN = b"a", b"w", b"d", b"f"


class Server(socket.socket):
    """A listening socket whose next `failures` accepts fail."""

    failures = 0
    ended_after_s = 0.0

    def accept(self) -> tuple[socket.socket, object]:
        try:
            connection, address = super().accept()
        except OSError:
            time.sleep(self.ended_after_s)
            raise
        if self.failures:
            self.failures -= 1
            connection.close()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return connection, address


class Echo:
    """A listener whose peers send one byte a request and get it back; WORK takes until `done` is set."""

    def __init__(self, limits: Limits) -> None:
        self.server = Server(socket.AF_INET, socket.SOCK_STREAM)
        self.server.bind(("127.0.0.1", 0))
        self.server.listen(128)
        self.address = self.server.getsockname()
        self.done = threading.Event()
        self.reasons: list[str] = []
        self.listener = Listener("echo port", self.server, self._serve, limits, b"busy")
        self.clients = ExitStack()
        self.peers: list[Peer] = []

    def _serve(self, peer: Peer) -> None:
        self.peers.append(peer)
        # A request that comes behind the listener's end resets the connection.
        with suppress(ConnectionError):
            while request := peer.connection.recv(1):
                self._answer(peer, request)
        time.sleep(self.server.ended_after_s)
        self.reasons.append(peer.end_reason)

    def _answer(self, peer: Peer, request: bytes) -> None:
        if request == DEFECT:
            raise KeyError("a defect")
        if request == FOREIGN:
            raise StoreClosed("no frame")
        with peer.working():
            if request == WORK:
                self.done.wait(PATIENCE_S)
        peer.connection.sendall(request)

    def connect(self, *requests: bytes) -> socket.socket:
        client = self.clients.enter_context(socket.create_connection(self.address, PATIENCE_S))
        for request in requests:
            client.sendall(request)
            if request == ASK:
                assert client.recv(1) == request
        return client

    def fill(self, *requests: bytes) -> list[socket.socket]:
        """Connect one after the other, each when the one before is counted."""
        clients = []
        for request in requests:
            clients.append(self.connect(request))
            assert eventually(lambda: self.listener.connection_count == len(clients))
        return clients


@contextmanager
def echo(connections: int = 3, idle_s: float = LONG_S) -> Iterator[Echo]:
    made = Echo(Limits(connections, idle_s))
    made.listener.start()
    try:
        with made.clients:
            yield made
    finally:
        made.done.set()
        made.listener.stop()


def is_open(client: socket.socket) -> bool:
    """Whether its next request is answered."""
    try:
        client.sendall(ASK)
        return client.recv(1) == ASK
    except OSError:
        return False


@pytest.mark.parametrize(
    ("connections", "files", "allowed"),
    [
        (100, 1024, 100), (100, 606, 100), (100, 600, 100), (100, 599, 99), (100, 64, 10), (100, 18, 3), (100, 17, 2),
        (100, 0, 2), (2, 1024, 2), (1, 1024, 2), (100, resource.RLIM_INFINITY, 100),
    ],
)  # fmt: skip
def test_a_listener_takes_at_most_a_sixth_of_the_files(
    connections: int, files: int, allowed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (files, files))
    assert Limits(connections).allowed == allowed


def test_as_many_connections_as_allowed_are_kept() -> None:
    with echo(3) as made:
        assert [is_open(client) for client in made.fill(b"", b"", b"")] == [True, True, True]
        assert (made.listener.connection_count, dict(made.listener.ended)) == (3, {})


@pytest.mark.parametrize(
    ("first", "is_kept"),
    [
        ((b"", b"", b""), [False, True, True]),
        ((ASK, b"", b""), [True, False, True]),
        ((ASK, ASK, b""), [True, True, False]),
        ((ASK, ASK, ASK), [False, True, True]),
        ((WORK, ASK, ASK), [True, False, True]),
        ((WORK, WORK, ASK), [True, True, False]),
    ],
)
def test_one_more_ends_the_one_without_a_request_then_the_longest_quiet(
    first: tuple[bytes, ...], is_kept: list[bool]
) -> None:
    with echo(3) as made:
        clients = made.fill(*first)
        peers = made.listener._peers
        busy = first.count(WORK)
        assert eventually(lambda: (len(peers), sum(one.waiting_since is None for one in peers)) == (3, busy))
        assert is_open(made.connect())
        made.done.set()
        pairs = zip(clients, first, strict=True)
        assert [one.recv(1) == WORK if sent == WORK else is_open(one) for one, sent in pairs] == is_kept
        assert eventually(lambda: made.reasons[:1] == ["another connection needs its place"])
        assert dict(made.listener.ended) == {"limit": 1}


def test_a_connection_is_refused_while_all_others_are_worked_on() -> None:
    with echo(3) as made:
        clients = made.fill(WORK, WORK, WORK)
        peers = made.listener._peers
        assert eventually(lambda: len(peers) == 3 and all(one.waiting_since is None for one in peers))
        assert made.connect().recv(10) == b"busy"
        made.done.set()
        assert [client.recv(1) for client in clients] == [WORK, WORK, WORK]
        assert dict(made.listener.ended) == {"refused": 1}


def test_a_peer_that_keeps_the_listener_waiting_is_ended_and_one_that_is_worked_for_is_not() -> None:
    with echo(idle_s=0.4) as made:
        worked_for, quiet = made.fill(WORK, b"")
        assert quiet.recv(1) == b""
        assert eventually(lambda: made.reasons == ["no whole request for 0.4 seconds"])
        made.done.set()
        assert worked_for.recv(1) == WORK
        assert worked_for.recv(1) == b""
        assert dict(made.listener.ended) == {"idle": 2}


def test_requests_keep_a_connection_for_longer_than_it_may_be_idle() -> None:
    with echo(idle_s=0.4) as made:
        client, pause = made.connect(), threading.Event()
        for _ in range(8):
            pause.wait(0.1)
            assert is_open(client)


def test_accept_goes_on_after_an_error_and_ends_a_quiet_connection_for_its_file() -> None:
    with echo() as made:
        quiet, asked = made.fill(b"", ASK)
        made.server.failures = 1
        assert made.connect().recv(1) == b""
        assert quiet.recv(1) == b""
        trouble = "the echo port accepts no connection: [Errno 24] Too many open files"
        assert eventually(lambda: made.listener.describe_findings() == [trouble])
        assert is_open(made.connect())
        assert eventually(lambda: made.listener.describe_findings() == [])
        assert is_open(asked)
        assert is_open(made.connect())
        assert (made.listener.describe_findings(), dict(made.listener.ended)) == ([], {"error": 1})


def test_a_thread_that_cannot_start_closes_its_connection_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with echo() as made:
        kept = made.connect(ASK)

        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            refused = made.connect()
            assert refused.recv(1) == b""
        # The connection ends before the trouble is noted.
        assert eventually(lambda: made.listener.trouble == "can't start new thread")
        del kept
        assert is_open(made.connect())
        assert eventually(lambda: made.listener.trouble is None)


def test_what_is_not_the_protocol_ends_its_connection_and_a_defect_is_told_of() -> None:
    with echo() as made:
        assert made.connect(FOREIGN).recv(1) == b""
        assert made.listener.describe_findings() == []
        assert made.connect(DEFECT).recv(1) == b""
        assert made.listener.describe_findings() == [
            "the echo port ended a connection by a defect: KeyError('a defect')"
        ]
        assert eventually(lambda: made.listener.connection_count == 0)
        assert eventually(lambda: [peer.connection.fileno() for peer in made.peers] == [-1, -1])
        assert is_open(made.connect())


def test_the_stop_lets_a_request_under_way_be_answered() -> None:
    with echo() as made:
        client = made.connect(WORK)
        assert eventually(lambda: [one.waiting_since for one in made.listener._peers] == [None])
        steps: list[str] = []
        made.server.ended_after_s = 0.1

        def before_end() -> None:
            steps.append("accepts" if any(one.is_alive() for one in made.listener._threads) else "none is accepted")
            made.done.set()

        made.listener.stop(before_end)
        assert made.listener.connection_count == 0
        made.listener.stop(lambda: steps.append("twice"))
        assert (client.recv(1), client.recv(1), steps) == (WORK, b"", ["none is accepted"])
        assert made.listener._ending.is_set()
        with pytest.raises(OSError):
            socket.create_connection(made.address, 1)


def test_a_listener_that_was_never_started_can_be_stopped() -> None:
    Echo(Limits()).listener.stop()
