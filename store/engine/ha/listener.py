"""Listener: accepts connections for any protocol; neither their number nor an error ends it.

    connection    is served by a thread of its own
    limit         a connection beyond it ends a waiting one: first those without a whole request, then the longest quiet
    idle          a connection is ended once the listener has waited for it longer than `idle_s`
    an error      of accept or of a thread's start is kept as `trouble` until one succeeds; the next try is 0.1 s later

Time limits apply while a request is received or its answer sent, not while the request is worked on. A listener uses
at most a sixth of the files that the process may open: the others are the store's.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from store.errors import StoreError
from store.threads import Worker

MOST_CONNECTIONS = 100
IDLE_S = 60.0
SHARE_OF_FILES = 6
LEAST_CONNECTIONS = 2
RETRY_S = 0.1
SWEEP_S = 1.0
END_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The most connections of one listener, and its longest wait for one of them, in seconds."""

    connections: int = MOST_CONNECTIONS
    idle_s: float = IDLE_S

    @property
    def allowed(self) -> int:
        """The most connections that a listener of this process accepts."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        share = self.connections if files == resource.RLIM_INFINITY else files // SHARE_OF_FILES
        return max(LEAST_CONNECTIONS, min(self.connections, share))


class Peer:
    """One connection; `address` is its host and port, or empty."""

    def __init__(self, connection: socket.socket, address: tuple[str, int] | str) -> None:
        self.connection = connection
        self.address = address
        self.end_reason = ""
        """Why the listener ended the connection; empty if it did not."""
        self.has_asked = False
        """Whether a whole request came."""
        self.waiting_since: float | None = time.monotonic()
        """The time since which the listener waits for a request; None while one is worked on."""

    def note_request(self) -> None:
        """Count a whole request, and wait for the next one."""
        self.has_asked = True
        self.waiting_since = time.monotonic()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Mark the peer as worked on inside of the block; afterwards the listener waits for it again."""
        self.waiting_since = None
        try:
            yield
        finally:
            self.note_request()

    def end(self, reason: str = "", how: int = socket.SHUT_RDWR) -> None:
        """End the connection; its thread closes it."""
        self.end_reason = self.end_reason or reason
        with contextlib.suppress(OSError):
            self.connection.shutdown(how)


class ListenerState(NamedTuple):
    """A listener's open connections, their limit, and the number of ended ones by rule."""

    listener: str
    open_connections: int
    limit: int
    ended: dict[str, int]


class Listener:
    """A listener at `server` that calls `serve` for each connection.

    name     of the listener, for people
    server   a listening socket; stop() closes it
    refusal  bytes sent to a connection that is refused because all others are worked on
    """

    def __init__(
        self,
        name: str,
        server: socket.socket,
        serve: Callable[[Peer], None],
        limits: Limits,
        refusal: bytes = b"",
    ) -> None:
        self.name = name
        self.limits = limits
        self.trouble: str | None = None
        """Why the last connection could not be accepted; None if it was."""
        self.defect: str | None = None
        """The last error of a protocol that ended its connection."""
        self.ended: Counter[str] = Counter()
        """Connections that the listener ended, by the rule: limit, idle, error, refused."""
        self._server = server
        self._serve = serve
        self._refusal = refusal
        self._lock = threading.Lock()
        self._peers: dict[Peer, Worker] = {}
        self._ending = threading.Event()
        self._threads = [
            Worker(work, f"{name} {work.__name__}", daemon=True) for work in (self._accept_all, self._end_idle)
        ]

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        with self._lock:
            return len(self._peers)

    def start(self) -> None:
        """Accept from here on."""
        for thread in self._threads:
            thread.start()

    def stop(self, before_end: Callable[[], None] = lambda: None) -> None:
        """End every connection, after answers to requests under way. Calling it twice is fine.

        before_end  is called once no connection is accepted any more
        """
        if self._ending.is_set():
            return
        self._ending.set()
        # This ends accept(); close() alone does not.
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._server.close()
        before_end()
        # The second shutdown is for peers that do not read their answer: they must not keep the store open.
        for how in (socket.SHUT_RD, socket.SHUT_RDWR):
            with self._lock:
                peers = dict(self._peers)
            for peer in peers:
                peer.end(how=how)
            deadline = time.monotonic() + END_GRACE_S
            for thread in peers.values():
                thread.join(max(0.0, deadline - time.monotonic()))

    def state(self) -> ListenerState:
        """Return the listener's state at this moment."""
        return ListenerState(self.name, self.connection_count, self.limits.allowed, dict(self.ended))

    def describe_findings(self) -> list[str]:
        """Return why no connection is accepted at present, and the last defect, as sentences for people."""
        accepts = [f"the {self.name} accepts no connection: {self.trouble}"] if self.trouble is not None else []
        return accepts + ([f"the {self.name} ended a connection by a defect: {self.defect}"] if self.defect else [])

    def _accept_all(self) -> None:
        while not self._ending.is_set():
            try:
                self._accept()
                self.trouble = None
            except Exception as error:
                if not self._ending.is_set():
                    self.trouble = str(error)
                    # Too many open files or threads: ending a quiet connection frees one.
                    self._end_quietest("error", 0)
                    self._ending.wait(RETRY_S)

    def _accept(self) -> None:
        connection, address = self._server.accept()
        peer = Peer(connection, address)
        if not self._end_quietest("limit", self.limits.allowed):
            self._refuse(connection)
            return
        thread = Worker(partial(self._serve_peer, peer), f"{self.name} connection", daemon=True)
        with self._lock:
            self._peers[peer] = thread
        try:
            thread.start()
        except BaseException:
            self._forget(peer)
            raise

    def _refuse(self, connection: socket.socket) -> None:
        self.ended["refused"] += 1
        with connection, contextlib.suppress(OSError):
            connection.setblocking(False)
            connection.send(self._refusal)

    def _end_idle(self) -> None:
        while not self._ending.wait(min(SWEEP_S, self.limits.idle_s / 4)):
            latest = time.monotonic() - self.limits.idle_s
            for peer, since in self._waiting():
                if since < latest:
                    self._end(peer, "idle", f"no whole request for {self.limits.idle_s:g} seconds")

    def _end_quietest(self, rule: str, allowed: int) -> bool:
        """Make room for a connection if `allowed` are open; return False if all of them are worked on."""
        waiting = self._waiting()
        with self._lock:
            is_full = sum(not peer.end_reason for peer in self._peers) >= allowed
        if is_full and waiting:
            quietest, _ = min(waiting, key=lambda one: (one[0].has_asked, one[1]))
            self._end(quietest, rule, "another connection needs its place")
        return not is_full or bool(waiting)

    def _waiting(self) -> list[tuple[Peer, float]]:
        """Return the peers that the listener waits for, each with the start of the wait."""
        with self._lock:
            peers = [(peer, peer.waiting_since) for peer in self._peers if not peer.end_reason]
        return [(peer, since) for peer, since in peers if since is not None]

    def _end(self, peer: Peer, rule: str, reason: str) -> None:
        self.ended[rule] += 1
        peer.end(reason)

    def _serve_peer(self, peer: Peer) -> None:
        try:
            self._serve(peer)
        except (OSError, StoreError):
            # The peer has closed, or does not follow the protocol: there is nothing to answer.
            pass
        except Exception as error:
            self.defect = repr(error)
        finally:
            self._forget(peer)

    def _forget(self, peer: Peer) -> None:
        with self._lock:
            self._peers.pop(peer, None)
        peer.connection.close()
