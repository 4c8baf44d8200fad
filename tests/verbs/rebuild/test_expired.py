"""Queues whose messages have all expired keep the queue offset of their next message."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from store import Message, check, open_store
from store.broker_line import broker_line
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.structures.tables.consumer_offsets import read_consumer_offsets
from store.verbs.queue_ends import queue_ends
from tests.cli.running import rmqctl
from tests.support.five_stores import copy_of_five
from tests.support.quickly import one_of
from tests.support.refstore import needs_refstore, refstore
from tests.support.spark_stores import locally
from tests.support.stores import SMALL, make_store
from tests.verbs.rebuild.stores import expired_store

OLD = ("Old", 0)


def expire(root: Path) -> Path:
    """Deletes the log's segments but the last one."""
    for segment in sorted((root / "commitlog").iterdir())[:-1]:
        segment.unlink()
    return root


def next_offsets(root: Path) -> dict[tuple[str, int], int]:
    return {(one.topic, one.queue_id): one.max_offset for one in queue_ends(StoreReader(str(root)))}


# What the real stores of both lines answer: minimum and maximum, then offset, status and next offset of each get.
REMOVING, TOO_SMALL = "MESSAGE_WAS_REMOVING", "OFFSET_TOO_SMALL"
AT_THE_END = [(30, "OFFSET_OVERFLOW_ONE", 30), (31, "OFFSET_OVERFLOW_BADLY", 30)]
ANSWERS = {
    "4.9": ((0, 30), [(5, REMOVING, 20), (19, REMOVING, 20), (20, REMOVING, 30), (29, REMOVING, 30), *AT_THE_END]),
    "5.3": ((30, 30), [*((at, TOO_SMALL, 30) for at in (5, 19, 20, 29)), *AT_THE_END]),
}


@pytest.mark.parametrize("line", ANSWERS)
@pytest.mark.parametrize("read_only", [True, False])
def test_an_expired_queue_answers_as_in_a_broker_of_its_line(line: str, read_only: bool, tmp_path: Path) -> None:
    ends, gets = ANSWERS[line]
    with open_store(expired_store(tmp_path), compat=line, settings=SMALL, read_only=read_only) as store:
        assert (store.min_offset(*OLD), store.max_offset(*OLD)) == ends
        found = [(at, store.get(*OLD, at)) for at, _, _ in gets]
        states = {(one.topic, one.queue_id): (one.min_offset, one.max_offset) for one in store.queues()}
    assert [(at, answer.status.name, answer.next_offset) for at, answer in found] == gets
    assert states[OLD] == ends


@pytest.mark.parametrize("line", ANSWERS)
def test_the_extent_of_an_expired_queue_is_as_in_a_broker_of_its_line(line: str, tmp_path: Path) -> None:
    root = expired_store(tmp_path)
    ends = queue_ends(StoreReader(str(root)), 16384, broker_line(line))
    assert {(one.topic, one.queue_id): (one.min_offset, one.max_offset) for one in ends}[OLD] == ANSWERS[line][0]


@needs_refstore
@pytest.mark.parametrize("line", ANSWERS)
def test_a_real_store_answers_so_for_an_expired_queue(line: str, tmp_path: Path) -> None:
    root, asked, (ends, gets) = expired_store(tmp_path / "store"), tmp_path / "ops", ANSWERS[line]
    of_queue = {"topic": "Old", "queue": 0}
    ops = [{"op": "minmax", **of_queue}, *({"op": "get", "offset": at, **of_queue} for at, _, _ in gets)]
    asked.write_text("".join(json.dumps(one) + "\n" for one in ops))
    sizes = ("--commitlog-size", 16384, "--cq-size", 400, "--slots", 50, "--index-num", 100)
    with refstore(line.replace(".", ""), "ops", "--store", root, *sizes, "--input", asked) as process:
        first, *rest = [json.loads(row)["res"] for row in process.communicate()[0].splitlines() if row[:1] == "{"]
    assert (first["min"], first["max"]) == ends
    assert [(at, one["status"], one["nextBeginOffset"]) for (at, _, _), one in zip(gets, rest, strict=True)] == gets


@pytest.mark.turns(2)
@pytest.mark.parametrize("words", [[], ["--queues"], ["--topic", "Old"], ["--topic", "Old", "--queue", "0"]])
def test_the_next_message_of_an_expired_queue_follows_the_last_one(words: list[str], tmp_path: Path) -> None:
    root = expired_store(tmp_path / "store")
    assert rmqctl("rebuild", *words, "--yes", store=root).code == 0
    with open_store(root, settings=SMALL, read_only=False) as store:
        assert store.put(Message("Old", b"next")).queue_offset == 30
    with open_store(root, settings=SMALL) as store:
        assert [message.body for message in store.get(*OLD, 30).messages] == [b"next"]
    assert list(check(root)) == []


@pytest.mark.parametrize(
    "words",
    one_of(3, [["rebuild", "--yes"], ["recover", "--yes"], ["recover", "--abnormal", "--yes"]]),
)
@pytest.mark.parametrize(("consumed", "next_offset"), [(28, 28), (0, 0), (1 << 40, 0)])
def test_a_lost_queue_whose_messages_have_expired_goes_on_at_the_largest_offset_of_a_consumer(
    words: list[str], consumed: int, next_offset: int, tmp_path: Path
) -> None:
    root = expired_store(tmp_path / "store")
    shutil.rmtree(root / "consumequeue")
    table = {"Old@slow": {"0": min(consumed, 5)}, "Old@billing": {"0": consumed}, "../x@evil": {"0": 7}}
    (root / "config").mkdir(exist_ok=True)
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    run = rmqctl("--set", "mappedFileSizeConsumeQueue=400", *words, store=root)
    assert (run.code, "it goes on at 28, the largest offset of a consumer" in run.err) == (0, consumed == 28), run.err
    assert rmqctl("recover", "--yes", store=root).code == 0
    assert next_offsets(root).get(OLD, 0) == next_offset
    with open_store(root, settings=SMALL, read_only=False) as store:
        assert store.put(Message("Old", b"next")).queue_offset == next_offset
    with open_store(root, settings=SMALL) as store:
        assert [message.body for message in store.get(*OLD, next_offset).messages] == [b"next"]
    assert list(check(root)) == []


@pytest.mark.turns(2)
@pytest.mark.parametrize("words", [["rebuild", "--yes"], ["recover", "--abnormal", "--yes"]])
@pytest.mark.parametrize(
    ("topics", "next_offset"),
    [('{"topicConfigTable": {"Old": {}}}', 28), ('{"topicConfigTable": {"Other": {}}}', 0), ("{torn", 28)],
)
def test_queues_of_a_deleted_topic_are_not_lost(
    words: list[str], topics: str, next_offset: int, tmp_path: Path
) -> None:
    root = expired_store(tmp_path / "store")
    shutil.rmtree(root / "consumequeue")
    (root / "config").mkdir(exist_ok=True)
    (root / "config/consumerOffset.json").write_text('{"offsetTable": {"Old@billing": {"0": 28}}}')
    (root / "config/topics.json").write_text(topics)
    run = rmqctl("--set", "mappedFileSizeConsumeQueue=400", *words, store=root)
    assert (run.code, "its files are lost" in run.err) == (0, next_offset > 0), run.err
    assert next_offsets(root).get(OLD, 0) == next_offset
    assert (root / "consumequeue/Old").exists() == (next_offset > 0)


@pytest.mark.turns(2)
@pytest.mark.parametrize("words", [(), ("--keep-offsets",)])
@pytest.mark.parametrize(
    ("topics", "consumed", "next_offset"),
    [
        ("", 28, 28),
        ("", 1 << 40, 0),
        ('{"topicConfigTable": {"Old": {}}}', 28, 28),
        ('{"topicConfigTable": {"Other": {}}}', 28, 0),
    ],
)
def test_a_salvage_goes_on_at_the_same_offset_as_a_rebuild_and_leaves_the_consumer_there(
    topics: str, consumed: int, next_offset: int, words: tuple[str, ...], tmp_path: Path
) -> None:
    root, new = expired_store(tmp_path / "store"), tmp_path / "new"
    shutil.rmtree(root / "consumequeue")
    (root / "config").mkdir(exist_ok=True)
    table = {"Old@billing": {"0": consumed}, "T@billing": {"0": 7}, "../x@evil": {"0": 7}}
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    if topics:
        (root / "config/topics.json").write_text(topics)
    run = rmqctl("--set", "mappedFileSizeConsumeQueue=400", "salvage", "--to", new, *words, store=root)
    told = "Old, queue 0: its files are lost, and its messages have expired; it goes on at 28, the largest offset"
    assert (run.code, told in run.err) == (0, next_offset > 0), run.err
    assert next_offsets(new).get(OLD, 0) == next_offset
    assert read_consumer_offsets(new / "config", Filesystem())["Old", "billing"] == {0: next_offset}
    with open_store(new, settings=SMALL, read_only=False) as store:
        assert store.put(Message("Old", b"next")).queue_offset == next_offset
    assert list(check(new)) == []


@pytest.mark.parametrize(
    ("entry", "kept"),
    [
        ((-1, 100, 0), 25),
        ((0, 0, 0), 25),
        ((16383, 1, 0), 30),
        ((16383, 2, 0), 25),
        ((1 << 40, 100, 0), 25),
    ],
)
def test_entries_count_up_to_the_first_that_ends_after_the_logs_start(
    entry: tuple[int, int, int], kept: int, tmp_path: Path
) -> None:
    root = expired_store(tmp_path / "store")
    with (root / "consumequeue/Old/0" / f"{400:020d}").open("r+b") as file:
        file.seek(5 * 20)
        log_offset, size, code = entry
        file.write(log_offset.to_bytes(8, "big", signed=True) + size.to_bytes(4, "big") + code.to_bytes(8, "big"))
    locally(root, tmp_path / "new")
    assert next_offsets(tmp_path / "new")[OLD] == kept


@pytest.mark.leaves_damage
def test_a_queue_file_without_an_expired_entry_gives_way_to_the_one_before(tmp_path: Path) -> None:
    root = expired_store(tmp_path / "store")
    (root / "consumequeue/Old/0" / f"{400:020d}").write_bytes(bytes(400))
    locally(root, tmp_path / "new")
    assert next_offsets(tmp_path / "new")[OLD] == 20


def test_a_queue_without_entries_before_the_logs_start_is_not_kept(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 20)
    (root / "consumequeue/None/0").mkdir(parents=True)
    (root / "consumequeue/None/0" / f"{0:020d}").write_bytes(bytes(400))
    locally(root, tmp_path / "new")
    assert set(next_offsets(tmp_path / "new")) == {("T", 0), ("T", 1), ("T", 2)}


@pytest.mark.parametrize("name", ["bcq", "rocksdb", "rocksdb-double", "lmq"])
def test_batch_queues_databases_and_light_queues_keep_their_ends(name: str, tmp_path: Path) -> None:
    root = expire(copy_of_five(name, tmp_path))
    before = next_offsets(root)
    assert rmqctl("rebuild", "--queues", "--yes", store=root).code == 0
    assert next_offsets(root) == before
