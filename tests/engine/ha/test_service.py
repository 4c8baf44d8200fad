"""Replication of stores that are written to: a SYNC_MASTER's answers, and a slave that appends and dispatches."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from store import PutStatus, WritableStore, open_store
from store.config import StoreConfig
from store.engine.ha.service import _options
from store.formats.properties import says_no_wait
from store.structures.commitlog.bulk import MessageColumns
from tests.support.fake_master import log_of
from tests.support.refstore import SETTINGS, SIZES, free_port, needs_refstore, refstore, segments, wait_for
from tests.support.slaves import Slave
from tests.support.stores import SMALL, text_message
from tests.support.threads import eventually

ANY = "127.0.0.1:0"


@contextmanager
def master_store(root: Path, **settings: Any) -> Iterator[WritableStore]:
    with open_store(root, read_only=False, settings={**SMALL, "slaveTimeout": 100, **settings}, listen=ANY) as store:
        yield store


def test_a_master_has_the_settings_of_its_store_in_seconds() -> None:
    config = StoreConfig(
        ha_transfer_batch_size=7, ha_send_heartbeat_interval=1500, ha_housekeeping_interval=2500,
        slave_timeout=3500, ha_slave_fallbehind_max=9,
    )  # fmt: skip
    options = dataclasses.asdict(_options(config))
    assert {name: options[name] for name in ("batch_size", "heartbeat_s", "housekeeping_s", "slave_timeout_s",
            "fall_behind_max")} == {"batch_size": 7, "heartbeat_s": 1.5, "housekeeping_s": 2.5, "slave_timeout_s": 3.5,
            "fall_behind_max": 9}  # fmt: skip


def ha_master(store: WritableStore) -> Any:
    return store._services.ha.master


def connect(store: WritableStore, report: int) -> Slave:
    """A slave whose first report counts: the log has a record for it."""
    assert put(store) is PutStatus.SLAVE_NOT_AVAILABLE
    slave = Slave(ha_master(store), report)
    assert eventually(lambda: ha_master(store).push_to_slave_max_offset >= report)
    return slave


def put(store: WritableStore, number: int = 0) -> PutStatus:
    return store.put(text_message(number)).status


def test_a_sync_master_without_a_slave_says_so_and_has_the_message(tmp_path: Path) -> None:
    with master_store(tmp_path / "s", brokerRole="SYNC_MASTER") as store:
        assert put(store) is PutStatus.SLAVE_NOT_AVAILABLE
        store.catch_up()
        assert store.max_offset("T", 0) == 1


def test_a_slow_slave_is_a_timeout_and_a_quick_one_is_none(tmp_path: Path) -> None:
    with master_store(tmp_path / "s", brokerRole="SYNC_MASTER") as store:
        slave = connect(store, 1)
        assert put(store) is PutStatus.FLUSH_SLAVE_TIMEOUT
        slave.report(store.max_log_offset)
        assert eventually(lambda: ha_master(store).push_to_slave_max_offset == store.max_log_offset)
        assert put(store, 1) is PutStatus.FLUSH_SLAVE_TIMEOUT


def test_a_slave_far_behind_is_not_available(tmp_path: Path) -> None:
    with master_store(tmp_path / "s", brokerRole="SYNC_MASTER", haSlaveFallbehindMax=100) as store:
        slave = connect(store, 1)
        assert put(store) is PutStatus.SLAVE_NOT_AVAILABLE
        assert slave.frame()[0] == 1


@pytest.mark.parametrize("beyond", [1, 1 << 62])
def test_a_first_request_beyond_the_logs_end_acknowledges_nothing(beyond: int, tmp_path: Path) -> None:
    with master_store(tmp_path / "s", brokerRole="SYNC_MASTER", haSendHeartbeatInterval=50) as store:
        put(store)
        slave = Slave(ha_master(store), store.max_log_offset + beyond)
        assert slave.frame()[1] == b""
        assert put(store, 1) is not PutStatus.PUT_OK
        assert ha_master(store).push_to_slave_max_offset == 0


def test_a_message_that_does_not_wait_is_put_ok(tmp_path: Path) -> None:
    message = dataclasses.replace(text_message(0), properties=b"WAIT\x01false\x02")
    assert says_no_wait(message.properties)
    with master_store(tmp_path / "s", brokerRole="SYNC_MASTER") as store:
        assert store.put(message).status is PutStatus.PUT_OK
        assert store.put_batch([message]).status is PutStatus.PUT_OK
        assert store.put_many(MessageColumns.of([message, message])).status is PutStatus.PUT_OK
        assert store.put_many(MessageColumns.of([message, text_message(1)])).status is PutStatus.SLAVE_NOT_AVAILABLE


def test_an_async_master_never_waits(tmp_path: Path) -> None:
    with master_store(tmp_path / "s") as store:
        assert put(store) is PutStatus.PUT_OK


@pytest.mark.parametrize(("replicas", "status"), [(1, PutStatus.PUT_OK), (2, PutStatus.FLUSH_SLAVE_TIMEOUT)])
def test_5_3_counts_in_sync_replicas(replicas: int, status: PutStatus, tmp_path: Path) -> None:
    settings = {**SMALL, "slaveTimeout": 100, "brokerRole": "SYNC_MASTER", "inSyncReplicas": replicas}
    with open_store(tmp_path / "s", read_only=False, settings=settings, listen=ANY, compat="5.3") as store:
        assert put(store) is status


def slave_store(root: Path, address: str, settings: dict[str, Any]) -> Any:
    return open_store(root, read_only=False, settings={**settings, "brokerRole": "SLAVE"}, master=address)


def test_a_slave_has_the_masters_log_queues_and_index_and_refuses_puts(tmp_path: Path) -> None:
    with master_store(tmp_path / "m", brokerRole="SYNC_MASTER", slaveTimeout=120_000) as master:
        address = str(ha_master(master).address)
        with slave_store(tmp_path / "s", address, SMALL) as slave:
            assert eventually(lambda: ha_master(master).connection_count == 1)
            assert {put(master, number) for number in range(200)} == {PutStatus.PUT_OK}
            slave.catch_up()
            master.catch_up()
            assert slave.queues() == master.queues()
            assert slave.query("T", "k7").messages == master.query("T", "k7").messages
            assert put(slave) is PutStatus.SERVICE_NOT_AVAILABLE
    assert log_of(tmp_path / "s")[1] == log_of(tmp_path / "m")[1]


@pytest.mark.turns(3)
def test_a_slave_that_was_away_catches_up(tmp_path: Path) -> None:
    with master_store(tmp_path / "m") as master:
        address = str(ha_master(master).address)
        for first in (0, 100):
            for number in range(first, first + 100):
                put(master, number)
            with slave_store(tmp_path / "s", address, SMALL) as slave:
                assert eventually(lambda: slave.max_log_offset == master.max_log_offset)
        master.catch_up()
        with open_store(tmp_path / "s") as slave:
            assert slave.max_log_offset == master.max_log_offset
            assert slave.queues() == master.queues()


@needs_refstore
@pytest.mark.slow
@pytest.mark.parametrize("line", ["49", "53"])
def test_our_slave_follows_a_real_master(line: str, tmp_path: Path) -> None:
    from tests.support.refstore import write_input

    port, given = free_port(), write_input(tmp_path / "in.jsonl", 100)
    words = ("write", "--store", tmp_path / "m", *SIZES, "--input", given, "--ha-port", port, "--linger-ms", 60000)
    with refstore(line, *words):
        wait_for(port)
        time.sleep(2)
        with slave_store(tmp_path / "s", f"127.0.0.1:{port}", SETTINGS) as slave:
            assert eventually(lambda: sum(one.max_offset for one in slave.queues()) == 100)
        assert segments(tmp_path / "s") == segments(tmp_path / "m")
