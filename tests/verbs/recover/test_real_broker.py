"""A recovered store under the real broker, with real clients."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.refbroker import SETTINGS, cluster, needs_refbroker, needs_refbroker55

DELAY_MS = 20_000
LEVELS = {**SETTINGS, "messageDelayLevel": f"1s 5s {DELAY_MS // 1000}s"}


@needs_refbroker
def test_recovered_messages_come_after_the_delay_of_a_broker_with_levels_of_its_own(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with cluster(tmp_path / "real") as real:
        with real.broker(root, LEVELS) as broker:
            real.make_topic("Late", 1)
            sent = real.produce("Late", 45, "--delay", 3)
            broker.kill()
        schedule = root / "consumequeue/SCHEDULE_TOPIC_XXXX/2"
        for path in sorted(schedule.iterdir())[1:]:
            path.unlink()
        shutil.rmtree(root / "consumequeue/Late")
        assert rmqctl("recover", "--yes", store=root).code == 0
        late = rmqctl("--format", "json", "delay", "show", store=root).json["messages"]
        assert [row["deliver_timestamp_ms"] - row["store_timestamp_ms"] for row in late] == [DELAY_MS] * 45
        with real.broker(root, LEVELS):
            got = real.consume("Late", "billing", 45)
    assert min(row["storeTimestamp"] - row["bornTimestamp"] for row in got) >= DELAY_MS
    assert sorted(row["properties"]["UNIQ_KEY"] for row in got) == sorted(row["msgId"] for row in sent)


DATABASE_QUEUES = {"storeType": "defaultRocksDB"}
INDEX_IN_DATABASE = {"indexRocksDBEnable": "true", "indexFileWriteEnable": "false", "indexFileReadEnable": "false"}
BOTH_QUEUES = {"rocksdbCQDoubleWriteEnable": "true", "combineCQUseRocksdbForLmq": "true"}
SWITCHES = [
    pytest.param({}, id="default"),
    pytest.param({"timerWheelSnapshotFlush": "true"}, id="snapshots"),
    pytest.param(INDEX_IN_DATABASE, id="index"),
    pytest.param({"timerRocksDBEnable": "true"}, id="timers"),
    pytest.param({"transRocksDBEnable": "true", "transWriteOriginTransHalfEnable": "false"}, id="transactions"),
    pytest.param(DATABASE_QUEUES, id="queues"),
    pytest.param(BOTH_QUEUES, id="both kinds of queues"),
    pytest.param(
        {
            **DATABASE_QUEUES,
            "indexRocksDBEnable": "true",
            "timerRocksDBEnable": "true",
            "transRocksDBEnable": "true",
            "transWriteOriginTransHalfEnable": "false",
        },
        id="all in databases",
    ),
]


@needs_refbroker55
@pytest.mark.parametrize("switches", SWITCHES)
def test_a_group_misses_nothing_of_a_5_5_store_that_was_recovered_and_cut(
    switches: dict[str, str], tmp_path: Path
) -> None:
    """Plain messages, timers and transactions up to the cut, each once; timers that were delivered are behind it."""
    root, settings = tmp_path / "store", {**SETTINGS, **switches}
    with cluster(tmp_path / "real", "5.5") as real:
        with real.broker(root, settings) as broker:
            for topic in ("Orders", "Later", "Paid"):
                real.make_topic(topic, 1)
            plain = real.produce("Orders", 60, "--keys", "order#")
            later = real.produce("Later", 8, "--deliver-in", 90_000)
            paid = real.transact("Paid", 6, "--group", "payers", "--outcome", "commit,rollback")
            cut = real.produce("Orders", 10, "--keys", "late#")
            broker.kill()
        options = [f"--set={name}={value}" for name, value in switches.items()]
        assert rmqctl(*options, "recover", "--yes", store=root).code == 0
        at = rmqctl("--format", "json", *options, "find", cut[0]["msgId"], store=root).json["messages"][0]["log_offset"]
        done = rmqctl(*options, "truncate-dirty", "--offset", at, "--yes", store=root)
        assert done.code in (0, 1), done.err
        with real.broker(root, settings) as broker:
            got = real.consume("Orders,Later,Paid", "billing", 71, "--from", "first", timeout_s=150)
            more = real.produce("Orders", 5)
            assert [row["queueOffset"] for row in more] == [60, 61, 62, 63, 64]
            again = real.consume("Orders", "billing", 5)
            broker.stop()
        found = rmqctl("--format", "json", *options, "check", store=root)
    committed = [row for row in paid if row.get("outcome", "commit") == "commit"]
    names = {row["msgId"] for row in [*plain, *later]}
    assert sorted(row["msgId"] for row in got if row["topic"] != "Paid") == sorted(names)
    assert len({row["properties"]["UNIQ_KEY"] for row in got if row["topic"] == "Paid"}) == 3, committed
    assert sorted(row["msgId"] for row in again) == sorted(row["msgId"] for row in more)
    assert found.json["findings"] == []
