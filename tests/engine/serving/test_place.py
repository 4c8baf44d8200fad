"""The control socket: where it is, who may connect, and what a killed owner leaves."""

from __future__ import annotations

from pathlib import Path

from store.engine.serving.place import connect_to, has_socket, listen_at, socket_path
from store.files.filesystem import Filesystem


def test_the_socket_of_a_killed_owner_is_replaced_by_one_for_the_user_alone(tmp_path: Path) -> None:
    path = socket_path(tmp_path)
    assert (path, has_socket(tmp_path), connect_to(path)) == (tmp_path / ".rmqctl" / "control.sock", False, None)
    listen_at(path, Filesystem()).close()
    assert (has_socket(tmp_path), connect_to(path)) == (True, None)
    with listen_at(path, Filesystem()):
        connection = connect_to(path)
        assert connection is not None
        connection.close()
    assert path.stat().st_mode & 0o777 == 0o600
