"""Backups of a store that a real broker writes to, and restored stores under a real broker with real clients."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from store import open_store
from tests.cli.running import rmqctl
from tests.support.refbroker import Cluster, cluster, ids, log_offset, needs_refbroker, needs_refbroker55, sent_ids

OFFSETS_ARE_WRITTEN_S = 7
"""A broker writes consumerOffset.json every 5 s."""
BOTH_LINES = [pytest.param("4.9", marks=needs_refbroker), pytest.param("5.5", marks=needs_refbroker55)]


def back_up(store: Path, folder: Path, *words: object) -> dict[str, Any]:
    run = rmqctl("-f", "json", "backup", "create", folder, *words, store=store)
    assert run.code == 0, run.err
    found: dict[str, Any] = run.json
    return found


@pytest.mark.parametrize("line", BOTH_LINES)
def test_a_group_goes_on_at_its_offset_in_a_restored_store(tmp_path: Path, line: str) -> None:
    root, folder, new = tmp_path / "store", tmp_path / "backups", tmp_path / "new"
    with cluster(tmp_path / "real", line) as real:
        with real.broker(root) as broker:
            real.make_topic("Orders", 2)
            old = real.produce("Orders", 60, "--body-size", 500)
            assert ids(real.consume("Orders", "billing", 60)) == sent_ids(old)
            time.sleep(OFFSETS_ARE_WRITTEN_S)
            more = real.produce("Orders", 140, "--body-size", 500)
            first = back_up(root, folder, "--compress")
            later = real.produce("Orders", 100, "--body-size", 500)
            second = back_up(root, folder)
            broker.kill()
        assert rmqctl("backup", "verify", folder).code == 0
        assert rmqctl("backup", "restore", f"{folder}@{first['backup_id']}", "--to", new).code == 0
        with real.broker(new) as broker:
            assert ids(real.consume("Orders", "billing", 140)) == sent_ids(more)
            assert ids(real.consume("Orders", "audit", 200, "--from", "first")) == sent_ids([*old, *more])
            assert real.produce("Orders", 1, "--queue", 0)[0]["queueOffset"] == 100
            broker.stop()
        assert rmqctl("check", store=new).code == 0
        ends = sorted(map(log_offset, later))
        words = ("--to", tmp_path / "half", "--log-offset", ends[50])
        assert rmqctl("backup", "restore", f"{folder}@{second['backup_id']}", *words).code == 0
        with real.broker(tmp_path / "half") as broker:
            before = [row for row in later if log_offset(row) < ends[50]]
            assert ids(real.consume("Orders", "billing", 190)) == sent_ids([*more, *before])


def produce_until(real: Cluster, stop: threading.Event, sent: list[list[dict[str, Any]]]) -> None:
    while not stop.is_set():
        sent.append(real.produce("Orders", 300, "--body-size", 200))


@needs_refbroker
def test_each_restored_moment_has_the_messages_acknowledged_before_it_and_none_after(tmp_path: Path) -> None:
    root, folder, stop = tmp_path / "store", tmp_path / "backups", threading.Event()
    sent: list[list[dict[str, Any]]] = []
    moments = []
    with cluster(tmp_path / "real") as real, real.broker(root) as broker:
        real.make_topic("Orders", 4)
        producer = threading.Thread(target=produce_until, args=(real, stop, sent))
        producer.start()
        try:
            while producer.is_alive() and not sent:
                time.sleep(0.1)
            for _ in range(8):
                time.sleep(1)
                before = [row for rows in list(sent) for row in rows]
                moments.append((back_up(root, folder), before))
        finally:
            stop.set()
            producer.join()
        broker.kill()
    places = {log_offset(row): row["msgId"] for rows in sent for row in rows}
    assert moments[-1][1]
    for number, (made, before) in enumerate(moments):
        new = tmp_path / f"new{number}"
        assert rmqctl("backup", "restore", f"{folder}@{made['backup_id']}", "--to", new).code == 0
        assert rmqctl("check", store=new).code == 0
        with open_store(new) as store:
            found = {one.log_offset for queue in range(4) for one in store.messages("Orders", queue)}
        assert found == {place for place in places if place < made["log_end"]}
        assert {log_offset(row) for row in before} <= found


@pytest.mark.parametrize("line", BOTH_LINES)
def test_a_group_goes_on_past_the_queue_offsets_that_a_bump_skips(tmp_path: Path, line: str) -> None:
    root, folder, new = tmp_path / "store", tmp_path / "backups", tmp_path / "new"
    with cluster(tmp_path / "real", line) as real:
        with real.broker(root) as broker:
            real.make_topic("Orders", 2)
            old = real.produce("Orders", 60)
            assert ids(real.consume("Orders", "billing", 60)) == sent_ids(old)
            time.sleep(OFFSETS_ARE_WRITTEN_S)
            back_up(root, folder)
            assert max(row["queueOffset"] for row in real.produce("Orders", 40)) == 49
            broker.kill()
        assert rmqctl("backup", "restore", folder, "--to", new, "--topic", "Orders", "--bump", 20).code == 0
        with real.broker(new) as broker:
            more = real.produce("Orders", 10)
            assert sorted(row["queueOffset"] for row in more) == [50, 50, 51, 51, 52, 52, 53, 53, 54, 54]
            assert ids(real.consume("Orders", "billing", 10)) == sent_ids(more)
            broker.stop()
        assert rmqctl("check", store=new).code == 0
