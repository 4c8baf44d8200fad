"""The limits of a connection's waits."""

from __future__ import annotations

import pytest

from store.engine.remoting.connection import Connection
from tests.support.fake_broker import FakeBroker


@pytest.mark.parametrize("before_s", [0.001, 0.0, 60.0, None])
def test_each_request_has_the_whole_time_whatever_the_wait_before_it_left(before_s: float | None) -> None:
    with FakeBroker({"Orders": 1}) as broker, Connection(("127.0.0.1", broker.port), 5.0) as connection:
        connection._socket.settimeout(before_s)
        assert connection.write([connection.request(26, {})]) == 1
        assert connection._socket.gettimeout() == 5.0
