"""A recovered store under the real broker, with real clients."""

from __future__ import annotations

import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.refbroker import SETTINGS, cluster, needs_refbroker, needs_refbroker55

DELAY_MS = 20_000
LEVELS = {**SETTINGS, "messageDelayLevel": f"1s 5s {DELAY_MS // 1000}s"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("4.9", ["recover", "--yes"], marks=needs_refbroker),
        pytest.param("4.9", ["rebuild", "--yes"], marks=needs_refbroker),
        pytest.param("4.9", ["salvage", "--to", "salvaged"], marks=needs_refbroker),
        pytest.param("5.5", ["recover", "--yes"], marks=needs_refbroker55),
    ],
)
def test_messages_come_after_the_delay_of_a_broker_with_levels_of_its_own(
    line: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "store"
    with cluster(tmp_path / "real", line) as real:
        with real.broker(root, LEVELS) as broker:
            real.make_topic("Late", 1)
            sent = real.produce("Late", 45, "--delay", 3)
            broker.kill()
        schedule = root / "consumequeue/SCHEDULE_TOPIC_XXXX/2"
        for path in sorted(schedule.iterdir())[1:]:
            path.unlink()
        shutil.rmtree(root / "consumequeue/Late", ignore_errors=True)
        kinds = {row["kind"] for row in rmqctl("--format", "json", "check", store=root).json["findings"]}
        whats = {row["what"] for row in rmqctl("--format", "json", "doctor", store=root).json["diagnoses"]}
        assert "missing-unit" in kinds & whats
        assert "unit-differs" not in kinds | whats
        done = rmqctl(*words, store=root)
        assert (done.code, f"3 ({DELAY_MS // 1000}s), so that messageDelayLevel is" in done.out + done.err) == (0, True)
        root = tmp_path / "salvaged" if "salvage" in words else root
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


TOPICS = ("Old", "Orders", "Later", "Paid")
OLD_S = 200 * 3600
"""The age of segments that are to be cleaned."""


@needs_refbroker55
@pytest.mark.parametrize("switches", SWITCHES)
def test_a_group_misses_nothing_of_a_5_5_store_that_was_cleaned_rebuilt_and_salvaged(
    switches: dict[str, str], tmp_path: Path
) -> None:
    """Plain messages, waiting timers, ended transactions and an open one, of the store and of its salvage."""
    root, saved, settings = tmp_path / "store", tmp_path / "saved", {**SETTINGS, **switches}
    options = [f"--set={name}={value}" for name, value in switches.items()]
    with cluster(tmp_path / "real", "5.5") as real:
        with real.broker(root, settings) as broker:
            for topic in TOPICS:
                real.make_topic(topic, 1)
            old = real.produce("Old", 300, "--body-size", 500)
            plain = real.produce("Orders", 60, "--keys", "order#")
            later = real.produce("Later", 4, "--deliver-in", 50_000)
            paid = real.transact("Paid", 4, "--group", "payers", "--outcome", "commit,rollback")
            waits = real.transact("Paid", 1, "--group", "payers", "--outcome", "unknown", "--check", "unknown")
            broker.stop()
        for segment in sorted((root / "commitlog").iterdir())[:2]:
            os.utime(segment, (time.time() - OLD_S,) * 2)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for words in (["clean-expired", "--force", "--now", now], ["rebuild"], ["rebuild", "message-database"]):
            done = rmqctl(*options, *words, "--yes", store=root)
            assert done.code == 0, done.err
        begins = min(int(path.name) for path in (root / "commitlog").iterdir())
        assert begins == 2 * 65536
        with_files = {**settings, "storeType": "default"}
        sizes = [f"--set={name}={value}" for name, value in SETTINGS.items()]
        # Of a compacted log the marks that end half messages name other places.
        keeps = ["--keep-offsets"] if "transRocksDBEnable" in switches else []
        done = rmqctl(*options, *sizes, "salvage", *keeps, "--to", saved, store=root)
        assert done.code == 0, done.err
        left = [row["msgId"] for row in old if int(row["offsetMsgId"][16:], 16) >= begins]
        sent = [*left, *(row["msgId"] for row in [*plain, *later])]
        committed = sorted(row["msgId"] for row in [*paid[::2], *waits])
        for store, group, started in ((root, "billing", settings), (saved, "audit", with_files)):
            options = [f"--set={name}={value}" for name, value in started.items()]
            assert rmqctl("-f", "json", *options, "check", store=store).json["findings"] == []
            with real.broker(store, started) as broker:
                more = real.transact("Paid", 1, "--group", "payers", "--check", "commit", "--linger", 60)
                wanted = len(sent) + len(committed) + 1
                got = real.consume("Old,Orders,Later,Paid", group, wanted, "--from", "first", timeout_s=90)
                assert real.produce("Orders", 1)[0]["queueOffset"] == 60
                broker.stop()
            keys = {topic: [row["properties"]["UNIQ_KEY"] for row in got if row["topic"] == topic] for topic in TOPICS}
            assert sorted([*keys["Old"], *keys["Orders"], *keys["Later"]]) == sorted(sent)
            # A slow broker may deliver a committed one twice.
            assert sorted(set(keys["Paid"])) == sorted([*committed, more[0]["msgId"]])
            assert rmqctl("-f", "json", *options, "check", store=store).json["findings"] == []
