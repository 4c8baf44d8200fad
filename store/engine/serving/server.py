"""ControlServer: serves an open store of this process to other processes.

    connection   served by a Listener's thread, so that puts that wait for the disk share a flush
    request      answered in the order of the connection; an error is returned to the caller, with its class
    stop         no new connection; held gets return; requests under way are answered; connections end

Every client may call everything: the socket's mode 0600 is the only guard.
"""

from __future__ import annotations

import threading
from typing import Self

from store.engine.ha.listener import Limits, Listener, Peer
from store.engine.services.served_store import ServedStore
from store.engine.serving.calls import Calls
from store.engine.serving.frames import Frame, encode_frame, parse_frame, receive_parts, send_frame
from store.engine.serving.place import listen_at, socket_path
from store.errors import StoreError

BUSY = {"class": "StoreClosed", "reason": "the process that serves the store works for as many others as it may"}


class ControlServer:
    """A server of `store` from start() to stop(); it does not close the store."""

    def __init__(self, store: ServedStore, limits: Limits | None = None) -> None:
        self.path = socket_path(store.layout.root)
        self.stop_asked = threading.Event()
        """Set by a client's call of stop."""
        self._store = store
        self._limits = limits or Limits()
        self._calls = Calls(store, self.stop_asked.set)
        self._listener: Listener | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return self._listener.connection_count if self._listener is not None else 0

    def start(self) -> None:
        """Listen; StoreIOError if no socket can be made in the folder."""
        refusal = encode_frame(Frame({"error": BUSY}))
        server = listen_at(self.path, self._store.opened.fs)
        self._listener = Listener("control socket", server, self._serve, self._limits, refusal)
        self._store.listeners.append(self._listener)
        self._listener.start()

    def stop(self) -> None:
        """End all connections; calling it twice is fine."""
        if self._listener is not None:
            self._listener.stop(self._end)

    def _end(self) -> None:
        self._store.opened.fs.unlink(self.path)
        self._store.release_held()

    def _serve(self, peer: Peer) -> None:
        while (parts := receive_parts(peer.connection)) is not None:
            with peer.working():
                answer = self._answer(*parts)
            send_frame(peer.connection, answer)
            peer.note_request()

    def _answer(self, head: bytes, attachment: bytes) -> Frame:
        try:
            return self._calls.answer(parse_frame(head, attachment))
        except StoreError as error:
            return Frame({"error": describe_error(error)})
        except Exception as error:
            # A defect in one call must not end the connection without an answer.
            return Frame({"error": {"class": "StoreError", "reason": f"a defect in the served store: {error!r}"}})


def describe_error(error: StoreError) -> dict[str, object]:
    """Return an error of the engine as an answer's head has it."""
    return {
        "class": type(error).__name__,
        "reason": error.reason,
        "file": str(error.file) if error.file is not None else None,
        "offset": error.offset,
        "hint": error.hint,
        "code": error.code,
        "subject": [str(one) for one in error.subject],
    }
