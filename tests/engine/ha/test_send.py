"""send, and the master behind it: slaves get the log byte for byte, and their reports are counted as the broker's."""

from __future__ import annotations

import dataclasses
import re
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.engine.ha.link import Address
from store.engine.ha.master import HAMaster, Replication, SlaveState, _Connection
from tests.cli.running import Run, rmqctl
from tests.support.fake_master import log_of
from tests.support.refstore import free_port, wait_for
from tests.support.slaves import QUICK, SIZE, Slave, sending
from tests.support.stores import make_store
from tests.support.threads import end_threads, eventually


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("master") / "store", 300)


def test_a_copy_of_what_is_sent_is_byte_identical(store: Path, tmp_path: Path) -> None:
    port, runs = free_port(), list[Run]()
    words = ("send", "--listen", f"127.0.0.1:{port}", "--once", "--format", "json")
    sender = threading.Thread(target=lambda: runs.append(rmqctl(*words, store=store)), daemon=True)
    sender.start()
    wait_for(port)
    size = ("--set", f"mappedFileSizeCommitLog={SIZE}")
    received = rmqctl("receive", f"127.0.0.1:{port}", "--to", tmp_path / "copy", *size)
    end_threads(sender)
    assert (runs[0].code, runs[0].json["acknowledged_offset"]) == (0, runs[0].json["log_end"])
    assert re.search(r"^note: .*connected$", runs[0].err, re.MULTILINE), runs[0].err
    assert received.code == 0, received.err
    assert log_of(tmp_path / "copy")[1] == log_of(store)[1]


@pytest.fixture
def master(store: Path) -> Iterator[HAMaster]:
    with sending(store, QUICK) as it:
        yield it


def test_an_empty_slave_begins_at_the_last_segment(master: HAMaster) -> None:
    assert Slave(master, 0).frame()[0] == master.log.max_offset - master.log.max_offset % SIZE


def test_a_slave_begins_where_it_asks_and_no_frame_crosses_a_segment(master: HAMaster, store: Path) -> None:
    offset, data = Slave(master, 100).frame()
    assert (offset, len(data)) == (100, SIZE - 100)
    assert data == log_of(store)[1][100:SIZE]


def test_a_heartbeat_names_the_next_offset(master: HAMaster) -> None:
    end = master.log.max_offset
    assert Slave(master, end).frame() == (end, b"")
    assert Slave(master, end + 1_000_000).frame() == (end + 1_000_000, b"")


def test_the_highest_report_of_any_slave_counts_and_stays(master: HAMaster) -> None:
    first, second = Slave(master, 10), Slave(master, 500)
    assert eventually(lambda: master.push_to_slave_max_offset == 500)
    second.report(400)
    del first, second
    assert master.push_to_slave_max_offset == 500


def test_a_report_beyond_the_log_ends_the_connection(master: HAMaster) -> None:
    slave = Slave(master, 1)
    slave.frame()
    slave.report(master.log.max_offset + 1)
    assert slave.is_closed()


def test_a_slave_that_reports_nothing_more_is_dropped(store: Path) -> None:
    with sending(store, dataclasses.replace(QUICK, housekeeping_s=0.2)) as master:
        assert Slave(master, 1).is_closed()
        assert eventually(lambda: master.connection_count == 0)


def test_without_a_slave_none_is_available(master: HAMaster) -> None:
    assert master.wait_for_slave(1) is Replication.SLAVE_NOT_AVAILABLE


def test_a_slave_too_far_behind_does_not_count_as_available(master: HAMaster) -> None:
    slave = Slave(master, 1)
    assert eventually(lambda: master.push_to_slave_max_offset == 1)
    assert master.wait_for_slave(1 + SIZE) is Replication.SLAVE_NOT_AVAILABLE
    assert master.wait_for_slave(SIZE) is Replication.TIMEOUT
    slave.report(SIZE)
    assert master.wait_for_slave(SIZE, 60) is Replication.OK


def test_slaves_are_listed_by_address_with_what_they_have(master: HAMaster) -> None:
    end = master.log.max_offset
    slaves: list[Any] = [Slave(master, first) for first in (10, end)]
    slaves.append(socket.create_connection(master.address, 60))
    sockets = [getattr(one, "_socket", one) for one in slaves]
    acknowledged = {str(Address(*one.getsockname())): have for one, have in zip(sockets, (10, end, 0), strict=True)}
    rows = [SlaveState(name, have, end - have) for name, have in sorted(acknowledged.items())]
    assert eventually(lambda: master.slaves() == rows)
    assert all(one._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in master._connections)


@pytest.mark.parametrize(("from_end", "most", "size"), [(2, 9, 2), (2, 1, 1), (1, 9, 1), (0, 9, None), (-1, 9, None)])
def test_a_log_is_read_up_to_its_end(from_end: int, most: int, size: int | None, master: HAMaster) -> None:
    data = master.log.read(master.log.max_offset - from_end, most)
    assert (None if data is None else len(data)) == size


def test_a_connection_without_more_to_send_sleeps(master: HAMaster, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    monkeypatch.setattr(master.log, "read", lambda log_offset, most: reads.append(log_offset))
    slave = Slave(master, 1)
    assert [slave.frame(), slave.frame()] == [(1, b""), (1, b"")]
    assert 2 <= len(reads) <= 20


def test_a_port_in_use_is_an_io_error(store: Path, master: HAMaster) -> None:
    run = rmqctl("send", "--listen", str(master.address), store=store)
    assert (run.code, "cannot listen on" in run.err) == (5, True)


@pytest.mark.turns(2)
@pytest.mark.parametrize(("given", "kept"), [((), "4.9"), (("--compat", "4.9"), "4.9"), (("--compat", "5.3"), "5.3")])
def test_a_copy_keeps_the_masters_version(given: tuple[str, ...], kept: str, master: HAMaster, tmp_path: Path) -> None:
    for words in (given, ()):
        size = ("--set", f"mappedFileSizeCommitLog={SIZE}")
        received = rmqctl("receive", str(master.address), "--to", tmp_path / "copy", *size, *words)
        assert received.code == 0, received.err
        assert rmqctl("info", "--format", "json", store=tmp_path / "copy").json["compat"] == kept


def test_a_report_that_comes_in_parts_counts_once_it_is_whole(master: HAMaster) -> None:
    slave, end = Slave(master, 10), master.log.max_offset
    for part in (struct.pack(">q", 300) + struct.pack(">q", end)[:3], struct.pack(">q", end)[3:7]):
        slave.send(part)
        assert eventually(lambda: master.push_to_slave_max_offset == 300)
    slave.send(struct.pack(">q", end)[7:])
    assert eventually(lambda: master.push_to_slave_max_offset == end)


def test_the_end_is_sent_once_a_heartbeat_has_followed_it(store: Path) -> None:
    asked = list[bool]()

    def has_waited() -> bool:
        asked.append(True)
        return True

    with sending(store, dataclasses.replace(QUICK, heartbeat_s=0.5)) as master:
        slave = Slave(master, master.log.max_offset)
        assert eventually(lambda: master.push_to_slave_max_offset == master.log.max_offset)
        master.wait_for_end(has_waited)
        assert asked, "no heartbeat was sent"
        assert slave.frame() == (master.log.max_offset, b"")
        assert eventually(lambda: master._connections and all(one.last_was_heartbeat for one in master._connections))
        asked.clear()
        master.wait_for_end(has_waited)
        assert not asked


def test_a_slave_that_has_the_whole_log_is_done_with_its_first_heartbeat() -> None:
    with socket.socket() as one:
        peer: Any = SimpleNamespace(address=("::1", 1, 0, 0), connection=one)
        log, options = SimpleNamespace(max_offset=0), SimpleNamespace(housekeeping_s=3)
        master: Any = SimpleNamespace(log=log, options=options, push_to_slave_max_offset=0)
        connection = _Connection(master, peer)
        master._connections = [connection]
        assert (connection.address, one.gettimeout()) == (Address("::1", 1), 3)
        assert not HAMaster._has_sent_all(master)
        connection.last_was_heartbeat = True
        assert HAMaster._has_sent_all(master)


@pytest.mark.parametrize(("given", "host"), [("0", "127.0.0.1"), ("localhost:0", "127.0.0.1"), ("[::1]:0", "[::1]")])
def test_a_port_without_a_host_is_on_the_loopback(
    given: str, host: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqctl.commands.replicate_serve._serve", lambda master, once: None)
    run = rmqctl("-f", "json", "replicate", "serve", "--listen", given, store=store)
    assert run.json["address"].rpartition(":")[0] == host


@pytest.mark.parametrize("given", ["foo", ":1", "65536"])
def test_another_text_is_no_address(given: str, tmp_path: Path) -> None:
    run = rmqctl("replicate", "serve", "--listen", given, store=tmp_path)
    assert (run.code, run.err) == (
        2, f"rmqctl: Invalid value for --listen: {given!r} is not [HOST:]PORT (see rmqctl replicate serve --help)\n"
    )  # fmt: skip
