"""`serve --ha-listen` with slaves: `receive` in a process beside it, and a real slave that lags, stalls and goes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from store import open_store
from store.engine.serving import StoreClient
from tests.cli.running import rmqctl
from tests.support.processes import command_line, next_line, running
from tests.support.refstore import LINES, SETTINGS, SIZES, free_port, needs_refstore, refstore, segments
from tests.support.stores import FOR_PROCESSES, text_message
from tests.support.threads import PATIENCE_S, eventually


@contextmanager
def serving(root: Path, **settings: object) -> Iterator[tuple[StoreClient, str]]:
    """The store at `root`, served by another process; a client, and the address for slaves."""
    address = f"127.0.0.1:{free_port()}"
    # receive ends at a heartbeat.
    settings = {**SETTINGS, **FOR_PROCESSES, "haSendHeartbeatInterval": 200, **settings}
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with running(command_line(root, "serve", "--ready", "--quiet", "--ha-listen", address, *given)) as process:
        assert next_line(process) == "ready\n"
        with StoreClient.connect(root) as client:
            yield client, address
            assert client.stop(PATIENCE_S)
        assert process.wait(PATIENCE_S) == 0


def put(client: StoreClient, number: int = 0) -> str:
    return client.put(text_message(number)).status.value


@pytest.mark.turns(3)
def test_receive_copies_the_log_of_a_served_store_while_it_grows(tmp_path: Path) -> None:
    root, copy = tmp_path / "store", tmp_path / "copy"
    with serving(root) as (client, address):
        client.put_all([text_message(number) for number in range(500)])
        first = rmqctl("receive", address, "--to", copy, "--format", "json")
        assert (first.code, first.json["received_records"]) == (0, 500)
        client.put_all([text_message(number) for number in range(500, 1500)])
        second = rmqctl("receive", address, "--to", copy, "--format", "json")
        assert (second.code, second.json["received_records"]) == (0, 1000)
    assert len(segments(root)) > 2
    assert segments(copy) == segments(root)


@pytest.mark.turns(3)
def test_a_sync_master_that_serves_waits_for_receive_that_follows(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with serving(root, brokerRole="SYNC_MASTER") as (client, address):
        assert put(client) == "SLAVE_NOT_AVAILABLE"
        words = ("--quiet", "receive", address, "--to", tmp_path / "copy", "--follow")
        with running(command_line(None, *words)) as slave:
            assert eventually(lambda: put(client) == "PUT_OK")
            slave.send_signal(signal.SIGINT)
            slave.wait(PATIENCE_S)
        assert eventually(lambda: put(client) == "SLAVE_NOT_AVAILABLE")


@pytest.mark.turns(3)
def test_a_sync_master_that_serves_is_not_fooled_by_an_observer(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with serving(root, brokerRole="SYNC_MASTER", slaveTimeout=100) as (client, address):
        put(client)
        words = ("--quiet", "receive", address, "--to", tmp_path / "copy", "--follow", "--observe")
        with running(command_line(None, *words)):
            assert eventually(lambda: put(client) == "FLUSH_SLAVE_TIMEOUT")
            assert put(client) == "FLUSH_SLAVE_TIMEOUT"


@needs_refstore
@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_a_real_slave_absent_quick_slow_and_far_behind(line: str, tmp_path: Path) -> None:
    """The slave is stopped by a signal, so that it is connected and takes nothing."""
    root, slave = tmp_path / "store", tmp_path / "slave"
    settings = {"brokerRole": "SYNC_MASTER", "slaveTimeout": 500, "haSlaveFallbehindMax": 30_000}
    with serving(root, **settings) as (client, address):
        assert put(client) == "SLAVE_NOT_AVAILABLE"
        words = ("slave", "--store", slave, *SIZES, "--master", address, "--seconds", 100)
        with refstore(line, *words) as real:
            assert eventually(lambda: put(client) == "PUT_OK")
            assert {put(client, number) for number in range(50)} == {"PUT_OK"}
            os.kill(real.pid, signal.SIGSTOP)
            # A put may come before the signal.
            assert eventually(lambda: put(client) == "FLUSH_SLAVE_TIMEOUT")
            large = text_message(0, body_size=31_000)
            assert client.put(large).status.value in ("SLAVE_NOT_AVAILABLE", "FLUSH_SLAVE_TIMEOUT")
            assert put(client) == "SLAVE_NOT_AVAILABLE", "the slave is connected, and too far behind"
            os.kill(real.pid, signal.SIGCONT)
            assert eventually(lambda: put(client) == "PUT_OK")
            assert {put(client, number) for number in range(300)} == {"PUT_OK"}
            # An empty slave begins at the last segment, and puts go on while it starts.
            first = min(segments(slave))
            kept = {name: data for name, data in segments(root).items() if name >= first}
            assert eventually(lambda: segments(slave) == kept)
        assert eventually(lambda: put(client) == "SLAVE_NOT_AVAILABLE")
    with open_store(root) as store:
        assert store.max_offset("T", 0) > 350
