"""What the reading commands say of sound stores that the real broker left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.refbroker import SETTINGS, cluster, needs_refbroker, needs_refbroker55

READERS = (
    "info",
    "check",
    "doctor",
    "salvage",
    "recover --dry-run",
    "audit",
    "lag",
    "delay show",
    "transaction show",
    "config check",
    "usage",
    "timeline",
    "checkpoint show",
    "stale",
    "find again7",
    "simulate --compat all",
    "fingerprint",
    "dump commitlog",
    "dump consumequeue",
    "dump index",
    "dump delay",
)


@pytest.mark.parametrize(
    "line", [pytest.param("4.9", marks=needs_refbroker), pytest.param("5.5", marks=needs_refbroker55)]
)
def test_no_reading_command_raises_a_false_alarm_on_sound_stores(line: str, tmp_path: Path) -> None:
    store, closed, crashed = (tmp_path / name for name in ("store", "closed", "crashed"))
    # A 5.5 broker writes the ends of transactions after the interval; a crash before it is a finding.
    settings = {**SETTINGS, "messageDelayLevel": "1s 2s 3s 1h", "transactionOpBatchInterval": 100}
    with cluster(tmp_path / "real", line) as real:
        with real.broker(store, settings) as broker:
            real.make_topic("Orders")
            real.produce("Orders", 100, "--keys", "order#,all", "--tags", "A,B", "--body-size", 300)
            real.produce("Orders", 5, "--delay", 2)
            real.produce("Orders", 3, "--delay", 4)
            ended = real.transact("Orders", 6, "--group", "senders", "--outcome", "commit,rollback,unknown")
            assert len(real.consume("Orders", "readers", 120, "--fail-first", 1)) >= 107
            broker.stop()
        shutil.copytree(store, closed)
        with real.broker(store, settings) as broker:
            real.transact("Orders", 2, "--group", "senders", "--outcome", "commit,unknown")
            real.produce("Orders", 50, "--keys", "again#")
            real.produce("Orders", 2, "--delay", 4)
            broker.kill()
        shutil.copytree(store, crashed)
    rows = {
        name: {words: rmqctl(*words.split(), store=root).code for words in READERS}
        for name, root in (("closed", closed), ("crashed", crashed))
    }
    shown = rmqctl("--format", "json", "transaction", "show", store=closed).json["transactions"]
    assert [(row["uniq_key"], row["state"]) for row in shown] == [
        (row["msgId"], state) for row, state in zip(ended, 2 * ["committed", "rolled-back", "in-doubt"], strict=True)
    ]
    assert rows["closed"] == {**dict.fromkeys(READERS, 0), "find again7": 1}
    lost = rmqctl("--format", "json", "simulate", "--compat", "all", store=crashed).json["losses"]
    assert [row["lost_messages"] for row in lost] == [0, 0, 0]
    # That it was not shut down is said; a broker's start may cost it index files.
    assert {**rows["crashed"], "simulate --compat all": 0} == {**dict.fromkeys(READERS, 0), "info": 1, "doctor": 1}
