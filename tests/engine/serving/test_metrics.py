"""The metrics page: its form, its values, and where it listens."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from rmqctl.exit_codes import INTERRUPTED
from store import Message, open_store
from store.engine.ha import Address
from store.engine.ha.listener import Listener
from store.engine.live.running_flags import RunningFlag
from store.engine.services.schedule import ScheduleMessageService
from store.engine.serving import MetricsServer, StoreCollector
from store.engine.serving.metrics import PREFIX, CopyCollector
from store.engine.stats.latency import Latency
from store.errors import StoreIOError
from tests.support.fake_master import FakeMaster, honest
from tests.support.processes import running
from tests.support.slaves import Slave
from tests.support.stores import SMALL, Clock, make_store
from tests.support.threads import eventually

ANY = "127.0.0.1:0"

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[Address]:
    with (
        open_store(tmp_path / "store", read_only=False, services=[], settings=SMALL) as store,
        MetricsServer(StoreCollector(store), Address("127.0.0.1", 0)) as server,
    ):
        store.put(Message.of("Orders", "x"))
        yield server.address


def read_samples(address: Address, path: str = "/metrics") -> dict[tuple[str, str], float]:
    request = urllib.request.Request(f"http://{address}{path}", headers={"Accept": OPEN_METRICS})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        text = answer.read().decode()
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_page_counts_puts_and_gets(tmp_path: Path) -> None:
    with (
        open_store(tmp_path / "store", read_only=False, services=["statistics"], settings=SMALL) as store,
        MetricsServer(StoreCollector(store), Address("127.0.0.1", 0)) as server,
    ):
        size = sum(store.put(Message.of("Orders", "x")).size for _ in range(3))
        store.put(Message.of("T", b"x" * 100_000))
        store.catch_up()
        store.get("Orders", 0, 0)
        store.get("Orders", 0, 3)
        store.flags.set(RunningFlag.FENCED)
        samples = read_samples(server.address)
        assert samples["rocketmq_store_put_messages_total", "Orders"] == 3
        assert samples["rocketmq_store_put_bytes_total", "Orders"] == size
        assert samples["rocketmq_store_failed_puts_total", ""] == 1
        assert samples["rocketmq_store_gets_total", "found"] == samples["rocketmq_store_gets_total", "missed"] == 1
        assert samples["rocketmq_store_transferred_messages_total", ""] == 3
        assert samples["rocketmq_store_put_latency_seconds_count", ""] == 4
        assert samples["rocketmq_store_log_end_offset", ""] == store.max_log_offset
        assert samples["rocketmq_store_running_flag", "FENCED"] == 1
        assert samples["rocketmq_store_running_flag", "DISK_FULL"] == 0
        assert 0 < samples["rocketmq_store_disk_used_ratio", str(tmp_path / "store" / "commitlog")] <= 1


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("name[]=rocketmq_store_log_end_offset", {"rocketmq_store_log_end_offset"}),
        (
            "name[]=rocketmq_store_put_messages_total&name[]=rocketmq_store_gets_total",
            {"rocketmq_store_put_messages_total", "rocketmq_store_gets_total"},
        ),
        ("name[]=process_open_fds", {"process_open_fds"}),
        ("name[]=nothing", set()),
    ],
)
def test_names_choose_what_the_page_has(query: str, names: set[str], metrics: Address) -> None:
    assert {name for name, _ in read_samples(metrics, f"/metrics?{query}")} == names


@pytest.mark.parametrize("path", ["/", "/metrics/", "/metricsx", "/favicon.ico", "/metrics%20"])
def test_another_path_is_not_found(path: str, metrics: Address) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{metrics}{path}", timeout=20)
    assert refused.value.code == 404


def test_a_port_that_is_taken_is_an_error_of_the_disks_kind(tmp_path: Path) -> None:
    with (
        open_store(tmp_path / "store", read_only=False, services=[], settings=SMALL) as store,
        MetricsServer(StoreCollector(store), Address("127.0.0.1", 0)) as server,
        pytest.raises(StoreIOError, match="cannot listen on"),
    ):
        MetricsServer(StoreCollector(store), server.address)


def test_the_page_has_slaves_delays_halves_and_connections(tmp_path: Path) -> None:
    settings, clock = {**SMALL, "messageDelayLevel": "1s 5s"}, Clock()
    opened = open_store(
        tmp_path / "store", read_only=False, services=["transactions"], settings=settings, clock=clock, listen=ANY
    )
    with opened as store, MetricsServer(StoreCollector(store), Address("127.0.0.1", 0)) as server:
        store.listeners.append(server.listener)
        store._schedule = ScheduleMessageService(store, clock)
        for level in (1, 1, 2):
            store.put(Message.of("T", "x", delay_level=level))
        for key in "AB":
            store.transactions.prepare(Message.of("Pay", "x", uniq_key=key), "PG")
        store.transactions.given_up_count = 3
        store.catch_up()
        master = store._services.ha.master
        assert master is not None
        slave = Slave(master, 100)
        assert eventually(lambda: master.push_to_slave_max_offset == 100)
        clock.now_ms += 2500
        samples = read_samples(server.address)
        address, end = master.slaves()[0].slave, store.max_log_offset
        store.limit_connections(7)
        assert read_samples(server.address)["rocketmq_store_connection_limit", "metrics port"] == 7
        del slave
    prefix = "rocketmq_store_"
    names = ("slave", "push", "delay", "halves", "connection", "ended", "service_failed", "findings")
    assert {key: value for key, value in samples.items() if key[0].removeprefix(prefix).startswith(names)} == {
        (f"{prefix}slaves", ""): 1,
        (f"{prefix}push_to_slave_max_offset", ""): 100,
        (f"{prefix}slave_acknowledged_offset", address): 100,
        (f"{prefix}slave_behind_bytes", address): end - 100,
        (f"{prefix}delay_waiting_messages", "1"): 2,
        (f"{prefix}delay_waiting_messages", "2"): 1,
        (f"{prefix}delay_overdue_messages", "1"): 2,
        (f"{prefix}delay_overdue_messages", "2"): 0,
        (f"{prefix}delay_overdue_seconds", "1"): 1.5,
        (f"{prefix}delay_overdue_seconds", "2"): 0,
        (f"{prefix}halves_in_doubt", ""): 2,
        (f"{prefix}halves_given_up_total", ""): 3,
        (f"{prefix}connections", "HA port"): 1,
        (f"{prefix}connections", "metrics port"): 1,
        (f"{prefix}connection_limit", "HA port"): 100,
        (f"{prefix}connection_limit", "metrics port"): 100,
        (f"{prefix}findings", ""): 0,
    }
    assert samples["process_resident_memory_bytes", ""] > 1 << 20


def test_the_page_names_what_failed_and_what_was_ended(tmp_path: Path) -> None:
    with (
        open_store(tmp_path / "store", read_only=False, services=["transactions"], settings=SMALL) as store,
        MetricsServer(StoreCollector(store), Address("127.0.0.1", 0)) as server,
    ):
        store.listeners.append(server.listener)
        server.listener.ended["idle"] += 2
        # A round that succeeds forgets the trouble.
        store.transactions.stop()
        store.transactions.failure = StoreIOError("the disk is gone")
        store.transactions.trouble = StoreIOError("the disk is full")
        samples = read_samples(server.address)
        store.transactions.failure = store.transactions.trouble = None
    assert samples["rocketmq_store_service_failed", "TransactionalMessageService"] == 1
    assert samples["rocketmq_store_ended_connections_total", "metrics port,idle"] == 2
    assert samples["rocketmq_store_service_retrying", "TransactionalMessageService"] == 1
    assert samples["rocketmq_store_findings", ""] == 2


def test_a_copy_that_follows_its_master_has_a_page(tmp_path: Path) -> None:
    master = make_store(tmp_path / "master", 50)
    with open_store(master) as store:
        log_end = store.max_log_offset
    words = ["receive", "--to", str(tmp_path / "copy"), "--follow", "--metrics", ANY]
    with (
        FakeMaster(honest(master, log_end)) as served,
        running([sys.executable, "-m", "rmqctl", *words, served.address], stderr=subprocess.PIPE) as process,
    ):
        assert process.stderr is not None
        page = Address.parse(re.findall(r"http://(\S+)/metrics", process.stderr.readline())[0])
        assert eventually(lambda: read_samples(page)["rocketmq_store_copy_durable_offset", ""] == log_end)
        samples = read_samples(page)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == INTERRUPTED
    names = ("copy_log_end_offset", "received_bytes_total", "master_connections_total")
    assert [samples[f"rocketmq_store_{name}", ""] for name in names] == [log_end, log_end, 1]


def test_latencies_are_counted_up_to_each_bound_in_seconds() -> None:
    latency = Latency()
    for elapsed_ms in (0, 5, 9, 10, 600, 20_000):
        latency.note(elapsed_ms)
    store = SimpleNamespace(statistics=SimpleNamespace(latency=latency))
    samples = StoreCollector(cast(Any, store))._latency().samples
    bounds = ["0.0", "0.01", "0.05", "0.1", "0.2", "0.5", "1.0", "2.0", "3.0", "4.0", "5.0", "10.0", "+Inf"]
    counts = [1, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 6]
    name = "rocketmq_store_put_latency_seconds"
    assert [(one.name, one.labels, one.value) for one in samples] == [
        *((f"{name}_bucket", {"le": bound}, count) for bound, count in zip(bounds, counts, strict=True)),
        (f"{name}_count", {}, 6),
        (f"{name}_sum", {}, 20.624),
    ]


def test_metrics_come_in_an_order(tmp_path: Path) -> None:
    services = ("schedule", "transactions", "cleaning", "statistics")
    with open_store(tmp_path / "store", read_only=False, services=services, settings=SMALL) as opened:
        names = [one.name.removeprefix("rocketmq_store_") for one in StoreCollector(opened).collect()]
    assert names == [
        "failed_puts", "transferred_messages", "gets", "put_messages", "put_bytes", "put_latency_seconds",
        "log_start_offset", "log_end_offset", "unflushed_bytes", "undispatched_bytes", "held_gets", "findings",
        "disk_used_ratio", "running_flag", "slaves", "push_to_slave_max_offset", "slave_acknowledged_offset",
        "slave_behind_bytes", "delay_waiting_messages", "delay_overdue_messages", "delay_overdue_seconds",
        "halves_in_doubt", "halves_given_up", "connections", "connection_limit", "ended_connections",
        "service_failed", "service_retrying",
    ]  # fmt: skip


def samples_of(families: Any) -> dict[tuple[str, ...], float]:
    """The samples by name and labels, in their order."""
    samples = [one for each in families for one in each.samples]
    return {(one.name.removeprefix(PREFIX), *one.labels.values()): one.value for one in samples}


def test_the_gauges_of_a_store_are_those_of_its_log_and_flags() -> None:
    segments = SimpleNamespace(flushed_where=70)
    store: Any = SimpleNamespace(
        opened=SimpleNamespace(
            log=SimpleNamespace(min_offset=10, max_offset=100, segments=segments),
            fs=SimpleNamespace(used_ratio=lambda folder: {"log": 0.5, "queues": 0.25}[folder]),
        ),
        layout=SimpleNamespace(commitlogs=["log"], consumequeue="queues"), behind_bytes=5, held_count=3,
        describe_findings=lambda: ["a", "b"], flags={RunningFlag.DISK_FULL},
    )  # fmt: skip
    assert samples_of(StoreCollector(store)._gauges()) == {
        ("log_start_offset",): 10, ("log_end_offset",): 100, ("unflushed_bytes",): 30, ("undispatched_bytes",): 5,
        ("held_gets",): 3, ("findings",): 2, ("disk_used_ratio", "log"): 0.5, ("disk_used_ratio", "queues"): 0.25,
        **{("running_flag", str(flag.name)): float(flag is RunningFlag.DISK_FULL) for flag in RunningFlag},
    }  # fmt: skip


def test_the_page_of_a_copy_has_its_ends_and_what_was_received() -> None:
    receiver: Any = SimpleNamespace(report=SimpleNamespace(received_bytes=90, connection_count=2))
    copy: Any = SimpleNamespace(end=80, durable=70)
    assert samples_of(CopyCollector(receiver, copy).collect()) == {
        ("copy_log_end_offset",): 80, ("copy_durable_offset",): 70, ("received_bytes_total",): 90,
        ("master_connections_total",): 2,
    }  # fmt: skip


def test_a_page_at_an_address_of_ipv6_has_its_host_and_port_and_ends_with_its_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(Listener, "start", lambda listener: calls.append("start"))
    monkeypatch.setattr(Listener, "stop", lambda listener: calls.append("stop"))
    socket = SimpleNamespace(getsockname=lambda: ("::1", 9557, 0, 0))
    collector: Any = type("Collector", (), {"collect": lambda self: iter(())})()
    address: Any = SimpleNamespace(listen=lambda: socket)
    with MetricsServer(collector, address) as server:
        assert (server.address, calls) == (Address("::1", 9557), ["start"])
    assert calls == ["start", "stop"]
