"""The control socket: ROOT/.rmqctl/control.sock, accessible to its owner's user alone.

A socket's path has at most 107 bytes (sockaddr_un), and a store's path may be longer. So on systems with /proc the
kernel gets a path through an open descriptor of the folder, /proc/self/fd/N/control.sock.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.layout import OWN_FOLDER

if TYPE_CHECKING:
    import socket

SOCKET_NAME = "control.sock"
_DESCRIPTORS = Path("/proc/self/fd")
_MODE = 0o600


def socket_path(root: Path) -> Path:
    """Return the path where the owner of the store at `root` listens."""
    return root / OWN_FOLDER / SOCKET_NAME


def has_socket(root: Path) -> bool:
    """Return whether a process may serve the store at `root`; a killed one leaves its socket."""
    return os.path.lexists(socket_path(root))


def listen_at(path: Path, fs: Filesystem) -> socket.socket:
    """Listen at the path, for a caller that holds the store's lock.

    A socket that a killed owner left is replaced.
    """
    import socket

    fs.make_folder(path.parent)
    fs.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Linux creates the file with the socket's mode, so other users can never connect.
        os.fchmod(listener.fileno(), _MODE)
        with _short(path) as address:
            listener.bind(address)
        path.chmod(_MODE)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise StoreIOError.from_os(error, path, "listen at the control socket") from error
    return listener


def connect_to(path: Path) -> socket.socket | None:
    """Connect to the owner; None if no process listens, or the socket is another user's."""
    # Imported here, as every reader checks for a socket, and most stores have none.
    import socket

    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as address:
            connection.connect(address)
    except OSError:
        connection.close()
        return None
    return connection


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    if not _DESCRIPTORS.exists():
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield str(_DESCRIPTORS / str(folder) / path.name)
    finally:
        os.close(folder)
