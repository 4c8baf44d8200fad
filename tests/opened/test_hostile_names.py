"""A topic may have the name that a broker gives to a file; a queue's folder may be a link."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store import Message, open_store
from store.errors import ForeignFile, UnsupportedFormat
from store.verbs.check.check import check
from tests.cli.running import rmqctl
from tests.support.snapshots import snapshot
from tests.support.stores import SMALL, make_store, recover, text_message, truncate

NAMES = ["CURRENT", "MANIFEST-000001", "LOCK", "checkpoint", "lock", "abort", "index", "commitlog", "consumequeue"]


def put_and_read(root: Path, topic: str) -> list[bytes]:
    """Puts a message and gives the bodies of the topic's queue."""
    with open_store(root, settings=SMALL, read_only=False) as store:
        assert store.put(Message.of(topic, "body")).is_ok
    with open_store(root, settings=SMALL) as store:
        return [message.body for message in store.get(topic, 0, 0, 32).messages]


@pytest.mark.turns(2)
@pytest.mark.parametrize("topic", NAMES)
def test_a_topic_named_like_a_file_of_a_broker_does_not_lock_the_store(topic: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    assert put_and_read(root, topic) == [b"body"]
    assert put_and_read(root, topic) == [b"body", b"body"]
    (root / "abort").touch()
    recover(root, settings=SMALL)
    assert list(check(root)) == []
    assert rmqctl("info", store=root).code == 0


def test_a_store_with_a_rocksdb_is_not_written_to(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 3)
    (root / "consumequeue" / "CURRENT").write_text("MANIFEST-000001\n")
    with pytest.raises(UnsupportedFormat, match="RocksDB"):
        open_store(root, read_only=False)


@pytest.mark.parametrize("linked", ["consumequeue/T/0", "consumequeue/T"])
def test_put_refuses_a_queue_folder_that_is_a_link(linked: str, tmp_path: Path) -> None:
    root, outside = make_store(tmp_path / "store", 6), tmp_path / "outside"
    shutil.move(root / linked, outside)
    (root / linked).symlink_to(outside)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    with pytest.raises(ForeignFile, match="a link"), open_store(root, settings=SMALL, read_only=False) as store:
        store.put(text_message(7))
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before
    run = rmqctl("put", "T", "body", store=root)
    assert run.code == 4
    assert "a link" in run.err


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "line",
    [
        "put T body",
        "recover --yes",
        "recover --abnormal --yes",
        "rebuild --yes",
        "truncate-dirty --offset 0 --yes",
        "clean-expired --force --yes",
    ],
)
@pytest.mark.parametrize("linked", ["consumequeue", "index", "commitlog"])
def test_no_change_leaves_the_store_through_a_linked_folder(linked: str, line: str, tmp_path: Path) -> None:
    root, outside = make_store(tmp_path / "store", 6), tmp_path / "outside"
    shutil.move(root / linked, outside)
    (root / linked).symlink_to(outside)
    before = snapshot(outside)
    assert rmqctl("get", "T", "--queue", "0", "--offset", "0", store=root).code == 0
    run = rmqctl(*line.split(), store=root)
    assert run.code == 4
    assert f"{linked}: a link" in run.err
    assert "bind-mount" in run.err
    assert snapshot(outside) == before


def test_an_undo_does_not_leave_the_store_through_a_linked_folder(tmp_path: Path) -> None:
    root, outside = make_store(tmp_path / "store", 6), tmp_path / "outside"
    _, change_id = truncate(root, 0)
    shutil.move(root / "consumequeue", outside)
    (root / "consumequeue").symlink_to(outside)
    before = snapshot(outside)
    assert rmqctl("undo", str(change_id), "--force", store=root).code == 4
    assert snapshot(outside) == before
