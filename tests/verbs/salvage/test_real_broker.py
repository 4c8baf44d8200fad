"""Salvaged stores under the real broker, with real clients."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from store import check, open_store, salvage
from tests.cli.running import rmqctl
from tests.runs.real_group import run_round
from tests.support import light_queues as light
from tests.support.five_stores import copy_of_five
from tests.support.popping import acknowledge, pop
from tests.support.random_damage import records
from tests.support.refbroker import (
    SETTINGS,
    broker_port,
    cluster,
    ids,
    log_offset,
    needs_refbroker,
    needs_refbroker55,
    sent_ids,
)
from tests.verbs.backup.backups import back_up, restore

BATCHES = "RockBatch"
LEVELS = {**SETTINGS, "messageDelayLevel": "1s 5s 40s"}
Rows = list[dict[str, Any]]


def zero(root: Path, log_offsets: Iterable[int]) -> None:
    """Zeros the records at these log offsets."""
    sizes = {int(path.name) + at: (path, at, size) for path, at, size in records(root)}
    for start in log_offsets:
        path, at, size = sizes[start]
        with path.open("r+b") as file:
            file.seek(at)
            file.write(bytes(size))


@pytest.mark.parametrize(
    "line", [pytest.param("4.9", marks=needs_refbroker), pytest.param("5.5", marks=needs_refbroker55)]
)
@pytest.mark.parametrize("words", [(), ("--keep-offsets",)], ids=["compacted", "keep"])
def test_groups_get_all_sound_messages_of_a_salvaged_store_and_go_on_where_they_were(
    tmp_path: Path, words: tuple[str, ...], line: str
) -> None:
    root, target = tmp_path / "store", tmp_path / "salvaged"
    with cluster(tmp_path / "real", line) as real:
        with real.broker(root) as broker:
            real.make_topic("Orders", 2)
            old = real.produce("Orders", 60, "--body-size", 500)
            assert ids(real.consume("Orders", "billing", 60)) == sent_ids(old)
            new = real.produce("Orders", 140, "--body-size", 500)
            broker.stop()
        lost = [*old[:3], *new[70:77]]
        zero(root, map(log_offset, lost))
        for table in (root / "config/topics.json", root / "config/consumerOffset.json"):
            shutil.copy(table, f"{table}.bak")
            table.write_bytes(table.read_bytes()[:20])
        found = rmqctl("--format", "json", "salvage", "--to", target, *words, store=root)
        assert (found.code, found.json["lost_messages"]) == (1, len(lost)), found.out
        with real.broker(target) as broker:
            assert ids(real.consume("Orders", "billing", 140)) == sent_ids([*new[:70], *new[77:]])
            assert ids(real.consume("Orders", "audit", 200, "--from", "first")) == sent_ids(
                [*old[3:], *new[:70], *new[77:]]
            )
            assert real.produce("Orders", 1, "--queue", 0)[0]["queueOffset"] == 100


@needs_refbroker55
@pytest.mark.parametrize("way", ["salvage", "restore"])
def test_a_group_gets_each_message_of_a_databases_records_of_several_from_files(way: str, tmp_path: Path) -> None:
    root, new = copy_of_five("rocksdb", tmp_path), tmp_path / "new"
    if way == "salvage":
        salvage(root, new, settings=SETTINGS)
    else:
        back_up(root, tmp_path / "backups")
        restore(tmp_path / "backups", new, settings=SETTINGS)
    with cluster(tmp_path / "real", "5.5") as real, real.broker(new):
        got = real.consume(BATCHES, "audit", 33, "--from", "first")
        assert sorted(row["queueOffset"] for row in got) == list(range(33))
        assert real.produce(BATCHES, 1)[0]["queueOffset"] == 33


@needs_refbroker
def test_lost_delayed_messages_hold_up_none_and_delivered_ones_do_not_come_again(tmp_path: Path) -> None:
    root, target = tmp_path / "store", tmp_path / "salvaged"
    with cluster(tmp_path / "real") as real:
        with real.broker(root, LEVELS) as broker:
            real.make_topic("Late", 1)
            delivered = real.produce("Late", 20, "--delay", 1)
            assert ids(real.consume("Late", "billing", 20)) == sent_ids(delivered)
            waiting = real.produce("Late", 20, "--delay", 3)
            broker.stop()
        zero(root, map(log_offset, [*delivered[5:8], *waiting[3:6], *waiting[10:12]]))
        found = rmqctl("--format", "json", "salvage", "--to", target, store=root)
        assert (found.code, found.json["lost_messages"]) == (1, 8), found.out
        sound = [*waiting[:3], *waiting[6:10], *waiting[12:]]
        with real.broker(target, LEVELS):
            assert ids(real.consume("Late", "billing", 15)) == sent_ids(sound)
            assert ids(real.consume("Late", "audit", 36, "--from", "first", timeout_s=10)) == sent_ids(
                [*delivered, *sound]
            )


def zero_one_of_each_topic(root: Path) -> tuple[dict[str, int], list[str]]:
    """Zero a record of every topic's last queue; give their log offsets, and the ids of sound messages in Orders."""
    with open_store(root) as store:
        logs = {topic: [*store.messages(topic, store.queue_ids(topic)[-1])] for topic in store.topics()}
    hit = {topic: found[1].log_offset for topic, found in logs.items() if len(found) > 2}
    zero(root, hit.values())
    sound = [one.uniq_key for one in logs["Orders"] if one.log_offset != hit["Orders"]]
    return hit, [one for one in sound if one is not None]


CHECKS = {"transactionTimeOut": 1000, "transactionCheckInterval": 2000, "transactionCheckMax": 1}
"""A half message that nobody ends is discarded within 10 s."""
TRANSACTIONS = ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
OWN = {"SCHEDULE_TOPIC_XXXX", "%RETRY%billing", "%DLQ%strict", *TRANSACTIONS}


def checked_up_to(root: Path) -> dict[str, int]:
    """How many messages the check of transactions has left in its topics, of a store that was shut down."""
    table = json.loads(re.sub(r"(\d+):", r'"\1":', (root / "config/consumerOffset.json").read_text()))["offsetTable"]
    with open_store(root) as store:
        return {one: store.max_offset(one, 0) - table[f"{one}@CID_RMQ_SYS_TRANS"]["0"] for one in TRANSACTIONS}


@pytest.mark.parametrize(
    "line", [pytest.param("4.9", marks=needs_refbroker), pytest.param("5.5", marks=needs_refbroker55)]
)
def test_placeholders_in_a_brokers_own_topics_hold_up_no_sound_message(line: str, tmp_path: Path) -> None:
    root, target = tmp_path / "store", tmp_path / "salvaged"
    settings = {**SETTINGS, "messageDelayLevel": "1s 2s 3s 30s"}
    settings |= {"transactionOpBatchInterval": 100} if line == "5.5" else {}
    with cluster(tmp_path / "real", line) as real:
        with real.broker(root, settings) as broker:
            real.make_topic("Orders", 1)
            real.make_topic("Bad", 1)
            real.produce("Orders", 10)
            assert len(real.consume("Orders", "billing", 10, "--fail-first", 1)) >= 10
            real.produce("Bad", 4)
            # Refused for good: each comes twice, and goes to the dead letters.
            for _ in range(2):
                real.consume("Bad", "strict", 99, "--fail-first", 5, "--max-tries", 1, timeout_s=20)
            for _ in range(4):
                real.transact("Orders", 2, "--group", "senders", "--outcome", "commit")
            late = real.produce("Orders", 6, "--delay", 4)
            late += real.produce("Orders", 6, "--deliver-in", 40_000) if line == "5.5" else []
            broker.stop()
        hit, sound = zero_one_of_each_topic(root)
        assert OWN | ({"rmq_sys_wheel_timer"} if line == "5.5" else set()) <= hit.keys(), hit
        found = rmqctl("--format", "json", "salvage", "--to", target, store=root)
        assert (found.code, found.json["lost_messages"]) == (1, len(hit)), found.out
        with real.broker(target, {**settings, **CHECKS}) as broker:
            came = sent_ids([one for one in late if log_offset(one) not in hit.values()])
            assert len(came) == len(late) - (1 if line == "4.9" else 2)
            got = real.consume("Orders", "audit", len(sound) + len(came), "--from", "first", timeout_s=90)
            assert ids(got) == sorted([*sound, *came])
            ended = sent_ids(real.transact("Orders", 3, "--group", "senders", "--outcome", "commit"))
            again = real.consume("Orders", "audit", 3, "--fail-first", 1)
            assert sorted(set(ids(again))) == ended
            assert set(ended) <= set(ids(real.consume("Orders", "billing", 99, "--fail-first", 1, timeout_s=30)))
            real.mqadmin("updateTopicPerm", "-c", "RefCluster", "-t", "%DLQ%strict", "-p", 6)
            assert len(ids(real.consume("%DLQ%strict", "undertaker", 3, "--from", "first"))) == 3
            broker.stop()
        assert checked_up_to(target) == dict.fromkeys(TRANSACTIONS, 0)


INVISIBLE_MS = 10_000
IN_ONE_QUEUE = {**SETTINGS, "reviveQueueNum": 1}


def popped_until(port: int, wanted: set[str | None]) -> set[str | None]:
    """The ids that a group of pop consumers gets until it has these, for a minute at most."""
    found, end = set[str | None](), time.monotonic() + 60
    while not wanted <= found and time.monotonic() < end:
        found |= {message.uniq_key for message, _ in pop(port, "poppers", "Orders", 12, INVISIBLE_MS)}
        time.sleep(1)
    return found


@needs_refbroker55
def test_lost_checkpoints_of_pop_consumers_hold_up_no_other_message(tmp_path: Path) -> None:
    """Of 12 popped messages two are acknowledged, and of two all checkpoints are lost; the others come again.

    They do so once more after a message of the retry topic is lost.
    """
    root, target, again = (tmp_path / name for name in ("store", "salvaged", "again"))
    with cluster(tmp_path / "real", "5.5") as real:
        port = broker_port()
        with real.broker(root, {**IN_ONE_QUEUE, "reviveInterval": 600_000}, port) as broker:
            real.make_topic("Orders", 1)
            real.mqadmin("updateSubGroup", "-c", "RefCluster", "-g", "poppers")
            real.produce("Orders", 12)
            popped = pop(port, "poppers", "Orders", 12, INVISIBLE_MS)
            acknowledge(port, [fields for _, fields in popped[2:4]])
            time.sleep(INVISIBLE_MS / 1000 + 6)  # a broker writes offsets every 5 s
            broker.kill()
        with open_store(root) as store:
            revived = [*store.messages("rmq_sys_REVIVE_LOG_RefCluster", 0)]
            timers = [*store.messages("rmq_sys_wheel_timer", 0)]
        assert len(revived) == len(timers) == 14
        # Every timer that is lost before its copy is written again by a broker.
        twice = [one for one in (*revived, *timers) if b'"so":0,' in one.body or b'"so":5,' in one.body]
        hit = [*(one.log_offset for one in twice), revived[7].log_offset, revived[-1].log_offset]
        zero(root, hit)
        found = rmqctl("--format", "json", "salvage", "--to", target, store=root)
        assert (found.code, found.json["lost_messages"]) == (1, 6), found.out
        due = {one.uniq_key for at, (one, _) in enumerate(popped) if at not in (0, 2, 3, 5)}
        with real.broker(target, IN_ONE_QUEUE, port) as broker:
            assert popped_until(port, due) == due
            broker.stop()
        with open_store(target) as store:
            retried = [*store.messages("%RETRY%poppers_Orders", 0)]
        zero(target, [retried[0].log_offset])
        assert rmqctl("salvage", "--to", again, store=target).code == 1
        with real.broker(again, IN_ONE_QUEUE, port):
            left = due - {retried[0].uniq_key}
            assert popped_until(port, left) >= left


IN_DATABASE = {"transRocksDBEnable": "true", "transWriteOriginTransHalfEnable": "false"}


@needs_refbroker55
def test_lost_half_messages_of_a_database_hold_up_no_other_transaction(tmp_path: Path) -> None:
    root, target, settings = tmp_path / "store", tmp_path / "salvaged", {**SETTINGS, **IN_DATABASE}
    options = [f"--set={name}={value}" for name, value in settings.items()]
    with cluster(tmp_path / "real", "5.5") as real:
        with real.broker(root, settings) as broker:
            real.make_topic("Orders", 1)
            ended = sent_ids(real.transact("Orders", 3, "--group", "senders", "--outcome", "commit"))
            waiting = real.transact("Orders", 3, "--group", "senders", "--outcome", "unknown", "--check", "unknown")
            broker.stop()
        with open_store(root) as store:
            halves = [*store.messages("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", 0)]
            ops = [*store.messages("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", 0)]
        assert (len(halves), len(ops)) == (6, 3)
        zero(root, [halves[4].log_offset, ops[2].log_offset])
        found = rmqctl("-f", "json", *options, "salvage", "--keep-offsets", "--to", target, store=root)
        assert (found.code, found.json["lost_messages"]) == (1, 2), found.out
        with real.broker(target, {**settings, "transactionTimeOut": 1000, "transactionCheckInterval": 2000}):
            told = real.transact("Orders", 1, "--group", "senders", "--check", "commit", "--linger", 20)
            due = {*ended, *sent_ids([waiting[0], waiting[2], told[0]])}
            got = real.consume("Orders", "readers", len(due), "--from", "first", timeout_s=30)
            assert set(ids(got)) == due


@needs_refbroker
def test_a_group_misses_no_sound_message_of_a_store_that_was_broken_at_random(tmp_path: Path) -> None:
    run_round(tmp_path, seed=1)


@pytest.mark.parametrize(
    "line", [pytest.param("4.9", marks=needs_refbroker), pytest.param("5.5", marks=needs_refbroker55)]
)
def test_a_broker_dispatches_placeholders_to_light_queues_as_a_rebuild_does(line: str, tmp_path: Path) -> None:
    root, target = tmp_path / "store", tmp_path / "salvaged"
    light.zero(root, light.make(root, line)[9:13])
    made = salvage(root, target).new_store
    assert made is not None
    assert made.placeholder_count == 6
    rebuilt = light.read(target)
    shutil.rmtree(target / "consumequeue")
    settings = {**light.LIGHT, "enableLmq": "true", "enableMultiDispatch": "true"}
    with cluster(tmp_path / "real", line) as real, real.broker(target, settings) as broker:
        real.make_topic("T", 1)
        words = ("--property", "INNER_MULTI_DISPATCH=%LMQ%a,%LMQ%b")
        assert real.produce("T", 1, *words)[0]["queueOffset"] == light.COUNT
        broker.stop()
    assert list(check(target)) == []
    found = light.read(target)
    assert {topic: rows[:-1] for topic, rows in found.items()} == rebuilt
    assert [rows[-1][0] for rows in found.values()] == [30, 10, 30]
