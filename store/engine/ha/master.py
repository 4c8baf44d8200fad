"""HAMaster: sends a store's log to slaves, and counts their acknowledged log offsets.

    accept   a Listener's thread; each connection has two, as in the broker
    read     a slave's reports, 8 bytes each: the first has the beginning, the others acknowledge
    write    frames of the log up to its readable end, a heartbeat when nothing was sent for some time

    first report 0              begins at the last segment
    first report R              begins at R, whether the log has it or not
    a later one beyond the log  ends the connection (4.9.8)
    no report for a while       ends the connection

push_to_slave_max_offset is the highest log offset that any slave ever acknowledged; a connection's end leaves it.

Source: HAService, HAConnection, HAService.GroupTransferService (4.9.8).
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from store.engine.ha.link import Address
from store.engine.ha.listener import MOST_CONNECTIONS, Limits, Listener, Peer
from store.engine.ha.protocol import (
    HEADER,
    HEARTBEAT_INTERVAL_S,
    HOUSEKEEPING_INTERVAL_S,
    REPORT,
    TRANSFER_BATCH_SIZE,
)
from store.errors import StoreError
from store.structures.commitlog.readable_log import ReadableLog
from store.threads import Worker

if TYPE_CHECKING:
    from store.reading.message_store import MessageStore

IDLE_POLL_S = 0.1
SLAVE_TIMEOUT_S = 3.0
SLAVE_FALL_BEHIND_MAX = 256 << 20


class ServedLog(Protocol):
    """The log that a master sends."""

    segment_size: int

    @property
    def max_offset(self) -> int: ...

    def read(self, log_offset: int, most: int) -> memoryview | None:
        """Return some bytes from `log_offset` on, none beyond their segment; None if the log has none."""


class CommitLogSource:
    """A commit log for a master to send."""

    def __init__(self, log: ReadableLog) -> None:
        self._log = log
        self.segment_size = log.segments.file_size

    @classmethod
    def of(cls, store: MessageStore) -> Self:
        """Return the log of an opened store; the store must not be refreshed meanwhile."""
        return cls(store.opened.log)

    @property
    def max_offset(self) -> int:
        return self._log.max_offset

    def read(self, log_offset: int, most: int) -> memoryview | None:
        """Return some bytes from `log_offset` on, none beyond their segment; None if the log has none."""
        file = self._log.segments.find_by_offset(log_offset)
        if file is None:
            return None
        position = log_offset - file.file_start
        size = min(most, file.readable_position - position)
        return file.read(position, size) if size > 0 else None


class Replication(StrEnum):
    """The answers of a SYNC_MASTER about one put."""

    OK = "PUT_OK"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    TIMEOUT = "FLUSH_SLAVE_TIMEOUT"


@dataclass(frozen=True, slots=True)
class MasterOptions:
    """Settings of a master: haTransferBatchSize and so on, times in seconds."""

    batch_size: int = TRANSFER_BATCH_SIZE
    heartbeat_s: float = HEARTBEAT_INTERVAL_S
    housekeeping_s: float = HOUSEKEEPING_INTERVAL_S
    slave_timeout_s: float = SLAVE_TIMEOUT_S
    fall_behind_max: int = SLAVE_FALL_BEHIND_MAX
    connections: int = MOST_CONNECTIONS
    on_slave: Callable[[str], None] = lambda text: None


class SlaveState(NamedTuple):
    """A connected slave: its acknowledged log offset, and the bytes of the log beyond it."""

    slave: str
    acknowledged_offset: int
    behind_bytes: int


class HAMaster:
    """Serves `log` at `address`; port 0 takes a free one."""

    def __init__(self, log: ServedLog, address: Address, options: MasterOptions | None = None) -> None:
        self.log = log
        self.options = options or MasterOptions()
        self.push_to_slave_max_offset = 0
        self.grown = threading.Condition()
        """Notified when the log has grown."""
        self._acknowledged = threading.Condition()
        self._connections: set[_Connection] = set()
        server = address.listen()
        self.address = Address(*server.getsockname()[:2])
        limits = Limits(self.options.connections, self.options.housekeeping_s)
        self.listener = Listener("HA port", server, self._serve, limits)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Accept slaves from here on."""
        self.listener.start()

    def stop(self) -> None:
        """End every connection, and return when their threads have ended."""
        self.listener.stop(self._end_all)

    def _end_all(self) -> None:
        for connection in list(self._connections):
            connection.end("the master stops")
        with self.grown:
            self.grown.notify_all()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def slaves(self) -> list[SlaveState]:
        """Return the connected slaves, by address."""
        end = self.log.max_offset
        connected = [(str(one.address), one.acknowledged) for one in list(self._connections)]
        return [SlaveState(name, acknowledged, end - acknowledged) for name, acknowledged in sorted(connected)]

    def note_growth(self) -> None:
        """Wake connections that wait for more of the log."""
        if self._connections:
            with self.grown:
                self.grown.notify_all()

    def acknowledge(self, log_offset: int) -> None:
        """Count a slave's report."""
        with self._acknowledged:
            self.push_to_slave_max_offset = max(self.push_to_slave_max_offset, log_offset)
            self._acknowledged.notify_all()

    def wait_for_slave(self, next_offset: int, timeout_s: float | None = None) -> Replication:
        """Wait until a slave has the log up to `next_offset` (GroupTransferService, SYNC_MASTER)."""
        if not self._connections or next_offset - self.push_to_slave_max_offset >= self.options.fall_behind_max:
            return Replication.SLAVE_NOT_AVAILABLE
        self.note_growth()
        timeout_s = self.options.slave_timeout_s if timeout_s is None else timeout_s
        with self._acknowledged:
            is_there = self._acknowledged.wait_for(lambda: self.push_to_slave_max_offset >= next_offset, timeout_s)
        return Replication.OK if is_there else Replication.TIMEOUT

    def wait_for_slaves(self, next_offset: int, count: int, timeout_s: float | None = None) -> Replication:
        """Wait until `count` connected slaves have the log up to `next_offset` (5.3.3)."""
        self.note_growth()
        timeout_s = self.options.slave_timeout_s if timeout_s is None else timeout_s

        def is_there() -> bool:
            return sum(one.acknowledged >= next_offset for one in list(self._connections)) >= count

        with self._acknowledged:
            return Replication.OK if self._acknowledged.wait_for(is_there, timeout_s) else Replication.TIMEOUT

    def wait_for_end(self, should_stop: Callable[[], bool]) -> None:
        """Wait until a slave has acknowledged the whole log, and the heartbeat after it is sent."""
        with self._acknowledged:
            while not self._has_sent_all() and not should_stop():
                self._acknowledged.wait(IDLE_POLL_S)

    def _has_sent_all(self) -> bool:
        end = self.log.max_offset
        ready = [one for one in list(self._connections) if one.acknowledged >= end]
        return self.push_to_slave_max_offset >= end and all(one.last_was_heartbeat for one in ready)

    def _serve(self, peer: Peer) -> None:
        connection = _Connection(self, peer)
        self._connections.add(connection)
        self.options.on_slave(f"{connection.address} connected")
        connection.run()

    def forget(self, connection: _Connection, reason: str) -> None:
        """Drop a connection that ended."""
        self._connections.discard(connection)
        self.options.on_slave(f"{connection.address} ended: {reason}")


class _Connection:
    """One slave."""

    def __init__(self, master: HAMaster, peer: Peer) -> None:
        self.address = Address(*peer.address[:2])
        self._master = master
        self._peer = peer
        self.acknowledged = 0
        self.last_was_heartbeat = False
        """Whether the last frame was a heartbeat."""
        self._socket = peer.connection
        self._asked: int | None = None
        self._has_asked = threading.Event()
        self._is_over = False
        self._over_lock = threading.Lock()
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(master.options.housekeeping_s)

    def run(self) -> None:
        """Read in this thread and write in another, until the connection ends."""
        writer = Worker(self._write, "HA write", daemon=True)
        reason = "the slave closed"
        try:
            writer.start()
            reason = self._read()
        finally:
            self.end(reason)
            writer.join()

    def end(self, reason: str) -> None:
        """End the connection once."""
        with self._over_lock:
            if self._is_over:
                return
            self._is_over = True
        self._peer.end()
        self._has_asked.set()
        self._master.forget(self, self._peer.end_reason or reason)

    def _read(self) -> str:
        """Receive reports until the connection ends, and return the reason."""
        pending = bytearray()
        try:
            while not self._is_over:
                data = self._socket.recv(4096)
                if not data:
                    break
                pending += data
                whole = len(pending) - len(pending) % REPORT.size
                if whole:
                    # As in the broker, of several reports the last one counts.
                    self._take_report(REPORT.unpack_from(pending, whole - REPORT.size)[0])
                    self._peer.note_request()
                    del pending[:whole]
        except TimeoutError:
            return f"no report for {self._master.options.housekeeping_s:g} seconds"
        except (OSError, ValueError) as error:
            return str(error)
        return "the slave closed"

    def _take_report(self, log_offset: int) -> None:
        end = self._master.log.max_offset
        if log_offset < 0 or (log_offset > end and self._asked is not None):
            raise ValueError(f"a report of {log_offset}, the log ends at {end}")
        if self._asked is None:
            self._asked = log_offset
            self._has_asked.set()
        # A broker also counts a first report beyond its log's end: every later put then counts as replicated.
        if log_offset <= end:
            self.acknowledged = max(self.acknowledged, log_offset)
            self._master.acknowledge(log_offset)

    def _write(self) -> None:
        self._has_asked.wait()
        try:
            if self._asked is not None:
                self._send(self._begin(self._asked))
        except (OSError, StoreError) as error:
            self.end(str(error))

    def _begin(self, asked: int) -> int:
        log = self._master.log
        return asked or log.max_offset - log.max_offset % log.segment_size

    def _send(self, log_offset: int) -> None:
        """Send the log from `log_offset` on until the connection ends."""
        log, options = self._master.log, self._master.options
        sent_at = time.monotonic()
        while not self._is_over:
            end = log.max_offset
            body = log.read(log_offset, options.batch_size)
            if body is None and time.monotonic() - sent_at <= options.heartbeat_s:
                with self._master.grown:
                    if log.max_offset == end and not self._is_over:
                        self._master.grown.wait(IDLE_POLL_S)
                continue
            size = len(body) if body is not None else 0
            self._send_all(HEADER.pack(log_offset, size), body)
            self.last_was_heartbeat = body is None
            log_offset += size
            sent_at = time.monotonic()

    def _send_all(self, head: bytes, body: memoryview | None) -> None:
        parts: list[bytes | memoryview] = [head] if body is None else [head, body]
        left = sum(len(part) for part in parts)
        count = self._socket.sendmsg(parts)
        if count < left:
            rest = b"".join(bytes(part) for part in parts)
            self._socket.sendall(memoryview(rest)[count:])
