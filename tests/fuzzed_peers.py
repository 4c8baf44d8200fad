"""Peers for tests/fuzz.py that send mutated bytes: clients of the control socket, masters and slaves.

A copy from a hostile master has sound records alone, however it ended. A master gives an honest slave its log, whatever
slaves sent before.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from store import open_store
from store.engine.ha.link import Address, MasterLink
from store.engine.ha.log_copy import LogCopy
from store.engine.ha.master import CommitLogSource, HAMaster, MasterOptions
from store.engine.ha.protocol import HEADER, REPORT
from store.engine.ha.receive import Begin, ReceiveOptions, Receiver
from store.engine.ha.switch_link import EPOCH, RECEIVE_HANDSHAKE, RECEIVE_TRANSFER, AutoSwitchLink
from store.engine.serving.frames import Frame, encode_frame, receive_parts
from store.engine.serving.server import ControlServer
from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.structures.epochs.files import EpochFile
from tests.support.fake_master import log_of
from tests.support.served_calls import CALLS
from tests.support.stores import SMALL, make_store
from tests.support.threads import PATIENCE_S

LOG_BYTES = 6000
"""The seeds' frames have so much of the log: a few dozen records."""
FRAME_BYTES = 1000


@functools.cache
def folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="peers-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@functools.cache
def sent_store() -> Path:
    return make_store(folder() / "sent", 40)


class Peer:
    """A server of this process that answers every connection with `data`, and then ends its side."""

    def __init__(self) -> None:
        self.data = b""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._server.getsockname()[:2])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._server.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(self.data)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass


peer = functools.cache(Peer)


def frames_of(head: Callable[[int, int], bytes]) -> bytes:
    """The beginning of the log in frames with these heads, and a heartbeat."""
    log = log_of(sent_store())[1][:LOG_BYTES]
    pieces = [(at, log[at : at + FRAME_BYTES]) for at in range(0, len(log), FRAME_BYTES)]
    return b"".join(head(at, len(piece)) + piece for at, piece in [*pieces, (len(log), b"")])


def frame_seeds() -> list[bytes]:
    return [frames_of(HEADER.pack), HEADER.pack(0, 0)]


def switch_seeds() -> list[bytes]:
    """A handshake with epochs, and frames of two of them."""
    epochs = [(1, 0), (3, 3000)]
    table = b"".join(EPOCH.pack(*one) for one in epochs)
    frames = frames_of(lambda at, size: RECEIVE_TRANSFER.pack(2, size, at, *epochs[at >= 3000], LOG_BYTES))
    return [RECEIVE_HANDSHAKE.pack(1, len(table), LOG_BYTES, 3) + table + frames]


def received(data: bytes, connect: Callable[[Path, LogCopy], Callable[[Address, float], MasterLink]]) -> None:
    """The bytes as a master's answer to an empty slave."""
    peer().data = data
    root, fs = folder() / "copy", Filesystem()
    shutil.rmtree(root, ignore_errors=True)
    copy = LogCopy(root, SMALL, fs)
    try:
        Receiver(peer().address, copy, ReceiveOptions(begin=Begin.MIN, connect=connect(root, copy))).run()
    except StoreError:
        pass
    finally:
        copy.close()
    EpochFile(root, fs)
    again = LogCopy(root, SMALL, fs)
    again.close()
    assert again.end == (0 if copy.is_empty else copy.durable), "the copy holds bytes that are no record"


def from_master(data: bytes) -> None:
    received(data, lambda root, copy: lambda address, stall_s: MasterLink(address, stall_s=stall_s))


def from_controller(data: bytes) -> None:
    def connector(root: Path, copy: LogCopy) -> Callable[[Address, float], MasterLink]:
        epochs = EpochFile(root, Filesystem())
        return lambda address, stall_s: AutoSwitchLink(
            address, stall_s=stall_s, epochs=epochs, copy_end=lambda: copy.end, from_last_segment=False
        )

    received(data, connector)


@functools.cache
def master() -> HAMaster:
    store = open_store(sent_store())
    served = HAMaster(CommitLogSource(store.opened.log), Address("127.0.0.1", 0), MasterOptions(heartbeat_s=0.05))
    served.start()
    return served


def exchanged(data: bytes) -> bytes:
    """What the master sends to a slave that sends these bytes and ends its side."""
    with socket.create_connection(master().address, PATIENCE_S) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(1 << 16):
                answer += piece
        return answer


def from_slave(data: bytes) -> None:
    """The bytes as a slave's reports; then an honest slave gets its first frame."""
    defects: list[object] = []
    hook, threading.excepthook = threading.excepthook, defects.append
    try:
        exchanged(data)
        with socket.create_connection(master().address, PATIENCE_S) as honest:
            honest.sendall(REPORT.pack(1))
            log_offset, size = HEADER.unpack(honest.recv(HEADER.size, socket.MSG_WAITALL))
            assert (log_offset, size > 0) == (1, True)
    finally:
        threading.excepthook = hook
    assert not defects, defects


def report_seeds() -> list[bytes]:
    end = len(log_of(sent_store())[1])
    return [struct.pack(">3q", 0, 1000, end), REPORT.pack(1) * 20, REPORT.pack(end)]


@functools.cache
def control() -> ControlServer:
    services = ("schedule", "transactions", "statistics")
    return ControlServer(open_store(folder() / "served", read_only=False, services=services, settings=SMALL))


def from_client(data: bytes) -> None:
    """The bytes as requests on the control socket; every frame is answered, and none shows a defect."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        while (parts := receive_parts(theirs)) is not None:
            encode_frame(answer := control()._answer(*parts))
            assert "a defect" not in answer.head.get("error", {}).get("reason", ""), answer.head


def request_seeds() -> list[bytes]:
    """Each call, and two of them in a row; a held one would hold the run."""
    frames = [encode_frame(Frame(head, b"b" * ("messages" in head))) for head in CALLS if head["call"] != "wait"]
    return [*frames, *map(b"".join, itertools.pairwise(frames))]


PEERS: dict[str, tuple[Callable[[bytes], object], Callable[[], Sequence[bytes]]]] = {
    "control socket": (from_client, request_seeds),
    "master's frames": (from_master, frame_seeds),
    "controller's frames": (from_controller, switch_seeds),
    "slave's reports": (from_slave, report_seeds),
}
