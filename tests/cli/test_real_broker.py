"""Messages that rmqctl puts, under the real broker with real clients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.running import rmqctl
from tests.support.refbroker import SETTINGS, broker_port, cluster, needs_refbroker

CHECKS = {**SETTINGS, "transactionTimeOut": 1000, "transactionCheckInterval": 2000, "transactionCheckMax": 2}


def put(store: Path, *words: object) -> None:
    """Put by a process of its own: its clock is the broker's."""
    command = [sys.executable, "-m", "rmqctl", "--store", str(store), "put", *map(str, words)]
    subprocess.run(command, check=True, capture_output=True)


@needs_refbroker
def test_a_broker_asks_for_a_half_that_was_put_and_gives_one_up_without_a_producer(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with cluster(tmp_path / "real") as real:
        with real.broker(root, CHECKS) as broker:
            real.make_topic("Payments", 1)
            real.produce("Payments", 1)  # so that the files tell the sizes
            broker.stop()
        put(root, "Payments", "42", "--uniq-key", "asked", "--half", "payers")
        put(root, "Payments", "43", "--uniq-key", "orphan", "--half", "nobody")
        with real.broker(root, CHECKS) as broker:
            told = real.transact("Orders", 1, "--group", "payers", "--check", "commit", "--linger", 15)
            assert [row["transactionId"] for row in told if "check" in row] == ["asked"]
            got = real.consume("Payments", "readers", 3, timeout_s=10)
            broker.stop()
    assert [row["properties"]["UNIQ_KEY"] for row in got][1:] == ["asked"]
    shown = rmqctl("--format", "json", "transaction", "show", store=root)
    states = {row["uniq_key"]: row["state"] for row in shown.json["transactions"]}
    assert (shown.code, states["asked"], states["orphan"]) == (0, "committed", "discarded")


@needs_refbroker
def test_query_by_id_finds_a_message_that_was_put_for_the_brokers_address(tmp_path: Path) -> None:
    root = tmp_path / "store"
    sizes = [f"--set={name}={value}" for name, value in SETTINGS.items()]
    with cluster(tmp_path / "real") as real:
        port = broker_port()
        words = (*sizes, "put", "Orders", "hello", "--key", "order-1", "--store-host", f"127.0.0.1:{port}")
        written = rmqctl("--format", "json", *words, store=root).json["results"][0]
        with real.broker(root, port=port):
            real.make_topic("Orders", 1)
            found = real.mqadmin("queryMsgById", "-i", written["msg_id"])
    shown = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in found.splitlines())}
    assert (shown["OffsetID"], shown["Topic"], shown["Keys"]) == (written["msg_id"], "Orders", "[order-1]")
