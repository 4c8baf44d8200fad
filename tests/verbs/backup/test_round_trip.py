"""A restored store holds what the store held: every message at its queue offset, and a broker's tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import open_store
from store.errors import DamagedFile, UnsupportedFormat
from store.files.filesystem import Filesystem
from store.structures.tables.consumer_offsets import read_consumer_offsets
from tests.conftest import CopyOf
from tests.support.quickly import one_of
from tests.support.small_stores import store_of
from tests.support.stores import Clock, make_store, text_message
from tests.verbs.backup.backups import back_up, findings_of, fingerprint, messages_of, next_offsets, restore
from tests.verbs.rebuild.stores import expired_store

SAME_BYTES = ("normal", "many", "batch", "ipv6", "normal5", "5 bcq", "5 compaction", "5 lmq", "5 timer", "5 timer-roll")
SAME_MESSAGES = (
    "aborted", "torn", "no-derived", "preblank", "crash-async-checkpoint0", "5 bcq-aborted", "5 compaction-aborted",
    "5 timer-aborted", "5 timer-rolled", "5 rocksdb-double", "55 bulk", "55 combine", "55 combine-separate",
    "55 index", "55 plain", "55 rocksdbcq-separate", "55 timer", "55 trans",
)  # fmt: skip
"""Stores that crashed, begin later, or have queues in a database and an index with tags."""


@pytest.mark.parametrize("name", one_of(9, SAME_BYTES))
def test_a_closed_store_comes_back_with_the_same_fingerprint(name: str, tmp_path: Path) -> None:
    back_up(store_of(name), tmp_path / "backups", compresses=True)
    report = restore(tmp_path / "backups", tmp_path / "new")
    assert (report.findings, findings_of(tmp_path / "new")) == ([], [])
    assert fingerprint(tmp_path / "new") == fingerprint(store_of(name))


@pytest.mark.parametrize("name", one_of(13, SAME_MESSAGES))
def test_a_store_comes_back_with_the_same_messages(name: str, tmp_path: Path) -> None:
    back_up(store_of(name), tmp_path / "backups")
    assert restore(tmp_path / "backups", tmp_path / "new").findings == []
    assert messages_of(tmp_path / "new") == messages_of(store_of(name))
    assert next_offsets(tmp_path / "new") == next_offsets(store_of(name))
    assert findings_of(tmp_path / "new") == []


def test_records_of_several_messages_of_a_database_come_back_with_each_message(tmp_path: Path) -> None:
    """In the database a broker's least offset of their queue is 21, as its search meets the holes between them."""
    root, new = store_of("5 rocksdb"), tmp_path / "new"
    back_up(root, tmp_path / "backups")
    assert restore(tmp_path / "backups", new).findings == []
    of_batches = {place: body for place, body in messages_of(new).items() if place[0] == "RockBatch"}
    assert sorted(of_batches) == [("RockBatch", 0, offset) for offset in range(33)]
    assert messages_of(new) == messages_of(root) | of_batches
    assert next_offsets(new) == next_offsets(root)
    assert findings_of(new) == []


@pytest.mark.parametrize(("name", "compresses"), one_of(5, ["normal", "many", "5 bcq", "55 plain"], [False, True]))
def test_a_reader_finds_the_same_messages_in_a_backup(name: str, compresses: bool, tmp_path: Path) -> None:
    made = back_up(store_of(name), tmp_path / "backups", compresses=compresses)
    for address in (f"backup:{tmp_path / 'backups'}", f"backup:{tmp_path / 'backups'}@{made.id}"):
        assert messages_of(address) == messages_of(store_of(name))


def test_a_queue_whose_messages_have_expired_goes_on_at_its_offset(tmp_path: Path) -> None:
    root = expired_store(tmp_path / "store")
    back_up(root, tmp_path / "backups")
    assert restore(tmp_path / "backups", tmp_path / "new").expired_queue_count == 1
    assert next_offsets(tmp_path / "new") == next_offsets(root)
    with open_store(tmp_path / "new", read_only=False, clock=Clock(1_900_000_000_000)) as store:
        assert store.put(text_message(1, "Old")).queue_offset == 30
    assert findings_of(tmp_path / "new") == []


def test_offsets_of_consumers_come_back_within_the_queues(copy_of: CopyOf, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 90)
    (root / "config").mkdir()
    (root / "config/consumerOffset.json").write_text('{"offsetTable":{"T@readers":{0:7,1:30,2:99}}}')
    back_up(root, tmp_path / "backups")
    assert [one.remark for one in restore(tmp_path / "backups", tmp_path / "new").tables][1:] == [
        "1 offset moved into the queues: readers from 99 to 30 of T/2"
    ]
    offsets = read_consumer_offsets(tmp_path / "new/config", Filesystem())
    assert offsets == {("T", "readers"): {0: 7, 1: 30, 2: 30}}


def test_a_log_that_is_damaged_before_its_last_segment_is_left_to_salvage(tmp_path: Path) -> None:
    back_up(store_of("corrupt-mid"), tmp_path / "backups")
    with pytest.raises(DamagedFile, match="the log is damaged, 65358 bytes before its end"):
        restore(tmp_path / "backups", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_log_that_is_damaged_in_its_last_segment_ends_there(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 100)
    with (root / "commitlog/00000000000000016384").open("r+b") as file:
        file.seek(187 + 100)
        file.write(b"\xff")
    made = back_up(root, tmp_path / "backups")
    assert (made.log_end, len(made.notes)) == (18815, 1)
    report = restore(tmp_path / "backups", tmp_path / "new")
    assert (report.log_end, report.record_count) == (16384 + 187, 88)
    assert report.findings[0].startswith("the log is damaged, and ends there: ")
    assert findings_of(tmp_path / "new") == []


def test_a_log_of_a_group_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFormat, match="stop one member and copy its folder"):
        back_up(store_of("5 dledger"), tmp_path / "backups")
    assert not (tmp_path / "backups").exists()
