"""Queues whose messages have all expired keep the queue offset of their next message."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import Message, check, open_store
from store.disk.store_reader import StoreReader
from store.forensics.queue_ends import queue_ends
from tests.cli.running import rmqctl
from tests.five.stores import copy_of_five
from tests.rebuild.stores import expired_store
from tests.spark.test_rebuild import locally
from tests.support.stores import SMALL, make_store

OLD = ("Old", 0)


def expire(root: Path) -> Path:
    """Deletes the log's segments but the last one."""
    for segment in sorted((root / "commitlog").iterdir())[:-1]:
        segment.unlink()
    return root


def next_offsets(root: Path) -> dict[tuple[str, int], int]:
    return {(one.topic, one.queue_id): one.max_offset for one in queue_ends(StoreReader(str(root)))}


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
