"""ControlServer: lets other processes use a store that this one has open.

    accept     a thread; each connection gets a thread of its own, so that puts that wait for the disk share a flush
    request    answered in the order of the connection; an error goes back to the caller, with its class
    stop       no new connection; held gets return; requests under way are answered; connections end

Whoever may connect may do everything: the socket's mode 0600 is the only guard.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Self

from store.errors import StoreError
from store.services.served_store import ServedStore
from store.serving.calls import Calls
from store.serving.frames import Frame, receive_frame, send_frame
from store.serving.place import listen_at, socket_path

END_GRACE_S = 5.0


class ControlServer:
    """Serves `store`, and leaves it open; start() begins, stop() ends."""

    def __init__(self, store: ServedStore) -> None:
        self.path = socket_path(store.layout.root)
        self.stop_asked = threading.Event()
        """Set when a client has asked to stop."""
        self._store = store
        self._calls = Calls(store, self.stop_asked.set)
        self._listener: socket.socket | None = None
        self._acceptor = threading.Thread(target=self._accept, name="ControlServer")
        self._lock = threading.Lock()
        self._connections: dict[threading.Thread, socket.socket] = {}
        self._is_ending = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        with self._lock:
            return len(self._connections)

    def start(self) -> None:
        """Listen; StoreIOError where the folder takes no socket."""
        self._listener = listen_at(self.path, self._store.opened.fs)
        self._acceptor.start()

    def stop(self) -> None:
        """End all connections; calling it twice is fine."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        self._is_ending = True
        # Ends accept(), which close() alone does not.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        self._acceptor.join()
        self._store.opened.fs.unlink(self.path)
        self._store.release_held()
        self._end_connections(socket.SHUT_RD)
        self._join(END_GRACE_S)
        # A client that takes no answer must not keep the store open.
        self._end_connections(socket.SHUT_RDWR)
        self._join(END_GRACE_S)

    def _accept(self) -> None:
        listener = self._listener
        while listener is not None and not self._is_ending:
            try:
                connection, _ = listener.accept()
            except OSError:
                if self._is_ending:
                    return
                # Too many open files: others may end meanwhile.
                time.sleep(0.1)
                continue
            thread = threading.Thread(target=self._serve, args=(connection,), name="ControlConnection", daemon=True)
            with self._lock:
                self._connections[thread] = connection
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while not self._is_ending and (request := receive_frame(connection)) is not None:
                send_frame(connection, self._answer(request))
        except (OSError, StoreError):
            # The client has ended, or sends no frames: nothing to answer.
            pass
        finally:
            with self._lock:
                self._connections.pop(threading.current_thread(), None)
            connection.close()

    def _answer(self, request: Frame) -> Frame:
        try:
            return self._calls.answer(request)
        except StoreError as error:
            return Frame({"error": describe_error(error)})
        except Exception as error:
            # A defect in one call must not end the connection without a word.
            return Frame({"error": {"class": "StoreError", "reason": f"a defect in the served store: {error!r}"}})

    def _end_connections(self, how: int) -> None:
        with self._lock:
            connections = list(self._connections.values())
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(how)

    def _join(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with self._lock:
            threads = list(self._connections)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def describe_error(error: StoreError) -> dict[str, object]:
    """An error of the engine for the other side."""
    return {
        "class": type(error).__name__,
        "reason": error.reason,
        "file": str(error.file) if error.file is not None else None,
        "offset": error.offset,
        "hint": error.hint,
        "code": error.code,
        "subject": [str(one) for one in error.subject],
    }
