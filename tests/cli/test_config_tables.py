"""The broker's tables under config/: checked, shown, and topics.json rebuilt."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from store.structures.tables.fastjson import parse_fastjson
from tests.cli.running import Run, rmqctl
from tests.support.snapshots import snapshot
from tests.support.stores import make_store

TOPICS: dict[str, Any] = {
    "dataVersion": {"counter": 3, "timestamp": 1},
    "topicConfigTable": {"T": {"topicName": "T", "readQueueNums": 8, "writeQueueNums": 8, "perm": 4}},
}
OFFSETS = '{\n\t"offsetTable":{\n\t\t"T@good":{0:3,1:4\n\t\t},\n\t\t"T@ahead":{0:99\n\t\t}\n\t}\n}'


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = make_store(tmp_path / "store", 30)
    (root / "config").mkdir()
    (root / "config/topics.json").write_text(json.dumps(TOPICS))
    (root / "config/consumerOffset.json").write_text(OFFSETS)
    return root


def command(*arguments: object, store: Path, code: int = 0) -> Run:
    run = rmqctl("--format", "json", "config", *arguments, store=store)
    assert run.code == code, run.err
    return run


def kinds(root: Path) -> set[str]:
    """The kinds of a check's findings."""
    return {row["kind"] for row in command("check", store=root, code=1).json["findings"]}


def test_an_offset_beyond_its_queue_is_found(store: Path) -> None:
    (finding,) = command("check", store=store, code=1).json["findings"]
    assert (finding["kind"], "ahead is at 99 of T/0" in finding["detail"]) == ("outside", True)


@pytest.mark.parametrize(
    ("main", "backup", "kind"),
    [(b"{", None, "lost"), (b"{", b"{", "refused"), (b"{", b"{}", "backup"), (b"", b"{}", "backup")],
)
def test_what_a_broker_would_lose_is_found(store: Path, main: bytes, backup: bytes | None, kind: str) -> None:
    (store / "config/topics.json").write_bytes(main)
    if backup is not None:
        (store / "config/topics.json.bak").write_bytes(backup)
    assert kind in kinds(store)


def test_a_topic_without_an_entry_is_found(store: Path) -> None:
    (store / "config/topics.json").write_text('{"topicConfigTable":{}}')
    assert "no-topic" in kinds(store)


def test_the_tables_are_shown_entry_by_entry(store: Path) -> None:
    rows = command("show", store=store).json["entries"]
    found = {(row["file"], row["section"], row["name"]): row["value"] for row in rows}
    assert json.loads(found["consumerOffset.json", "offsetTable", "T@good"]) == {"0": 3, "1": 4}
    assert json.loads(found["topics.json", "topicConfigTable", "T"])["perm"] == 4
    assert {row["file"] for row in command("show", "topics", store=store).json["entries"]} == {"topics.json"}


@pytest.mark.parametrize("lost", ["nothing", "consumequeue", "commitlog"])
def test_topics_are_rebuilt_from_log_and_queues_and_kept_entries_stay(store: Path, lost: str) -> None:
    (store / "config/topics.json").write_text('{"topicConfigTable":{"Other":{"writeQueueNums":2,"perm":2}}}')
    if lost == "consumequeue":
        shutil.rmtree(store / "consumequeue")
    elif lost == "commitlog":
        shutil.rmtree(store / "commitlog")
    assert command("rebuild-topics", "--yes", store=store).json["applied"]
    table: Any = parse_fastjson((store / "config/topics.json").read_text())
    assert table["topicConfigTable"]["T"]["writeQueueNums"] == 3
    assert table["topicConfigTable"]["Other"]["perm"] == 2
    assert "no-topic" not in kinds(store)


def test_rebuilding_is_a_plan_that_is_undone(store: Path) -> None:
    (store / "config/topics.json").write_bytes(b"{ torn")
    before = snapshot(store)
    assert not command("rebuild-topics", "--dry-run", store=store).json["applied"]
    assert snapshot(store) == before
    change = command("rebuild-topics", "--yes", store=store).json["change_id"]
    assert snapshot(store) != before
    assert rmqctl("undo", change, store=store).code == 0
    assert snapshot(store) == before


def test_topics_are_rebuilt_whatever_size_the_segments_are_said_to_have(store: Path) -> None:
    (store / "config/topics.json").unlink()
    run = rmqctl("--set", "mappedFileSizeCommitLog=4096", "--format", "json", "rebuild", "topics", "--yes", store=store)
    assert (run.code, run.json["topics"]) == (0, [{"topic": "T", "queue_count": 3, "origin": "found in the store"}])


def test_a_table_that_names_everything_is_left_alone(store: Path) -> None:
    run = command("rebuild-topics", "--yes", store=store)
    assert (run.json["applied"], run.json["actions"]) == (False, [])
