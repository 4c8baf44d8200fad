"""A RocksDB with consume queues, built anew from the log: key for key what the broker wrote."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from store import check, open_store
from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.structures.queuedb.keys import Place, unit_key
from store.structures.queuedb.writer import DatabaseWriter
from store.verbs.queue_ends import queue_ends
from tests.cli.running import rmqctl
from tests.support.five_stores import asked, copy_of_five, five
from tests.support.rocksdb import (
    NAMES,
    answers_differ,
    edit,
    is_beginning,
    keys_of,
    set_checkpoint_back,
    written_keys,
)
from tests.support.snapshots import contents
from tests.verbs.rebuild.stores import expired_store

pytest.importorskip("rocksdict", reason="rocksdict is not installed: it writes RocksDBs")


def rebuild(root: Path, *words: str) -> None:
    run = rmqctl("rebuild", "--queues", *words, "--yes", store=root)
    assert run.code == 0, run.err


@pytest.mark.parametrize("name", ["rocksdb", "rocksdb-double"])
def test_every_key_is_the_one_that_the_broker_wrote(name: str, tmp_path: Path) -> None:
    root = copy_of_five(name, tmp_path)
    rebuild(root)
    assert keys_of(root, tmp_path) == written_keys(name)


def test_what_a_killed_broker_had_not_written_is_there_too(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb-aborted", tmp_path)
    rebuild(root)
    found, written = keys_of(root, tmp_path), written_keys("rocksdb-aborted")
    assert {key: found[key] for key in written if key[0] == "default"} == {
        key: value for key, value in written.items() if key[0] == "default"
    }
    assert len(found) > len(written)


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", NAMES)
def test_answers_stay_those_of_the_broker(name: str, tmp_path: Path) -> None:
    root = copy_of_five(name, tmp_path)
    rebuild(root)
    assert answers_differ(name, root) == []
    assert list(check(root)) == []


@pytest.mark.turns(2)
@pytest.mark.parametrize("file", ["CURRENT", "MANIFEST-000005", "000010.sst", "000011.sst"])
def test_a_lost_file_does_not_keep_it_from_being_built(file: str, tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    (root / "consumequeue" / file).unlink()
    assert rmqctl("check", store=root).code == 1
    rebuild(root)
    assert keys_of(root, tmp_path) == written_keys("rocksdb")


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", NAMES)
def test_the_old_database_is_kept_and_put_back_by_undo(name: str, tmp_path: Path) -> None:
    root = copy_of_five(name, tmp_path)
    before = contents(root / "consumequeue")
    change = rmqctl("--format", "json", "rebuild", "--queues", "--yes", store=root).json["change_id"]
    assert contents(root / "consumequeue") != before
    run = rmqctl("undo", change, store=root)
    assert run.code == 0, run.err
    assert contents(root / "consumequeue") == before


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    before = contents(root)
    assert rmqctl("rebuild", "--queues", "--dry-run", store=root).code == 0
    assert contents(root) == before


def test_one_queue_is_built_anew_and_the_others_are_taken_over(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    lost, kept = unit_key("RockA", 0, 5), unit_key("RockA", 1, 5)
    edit(root, lambda units, offsets: [units.__delitem__(lost), units.__setitem__(kept, bytes(28))])
    rebuild(root, "--topic", "RockA", "--queue", "0")
    found, written = keys_of(root, tmp_path), written_keys("rocksdb")
    assert found["default", lost] == written["default", lost]
    assert found["default", kept] == bytes(28)
    assert {key for key in found if not is_beginning(*key)} == set(written)


def test_one_queue_of_a_damaged_database_is_refused_with_the_way_out(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    (root / "consumequeue/CURRENT").write_bytes(b"damage")
    run = rmqctl("rebuild", "--queues", "--topic", "RockA", "--yes", store=root)
    assert run.code == 4
    assert "`rmqctl rebuild --queues` rebuilds all queues" in run.err


def test_a_store_without_any_queue_gets_a_rocksdb_where_the_settings_say_so(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    for path in (root / "consumequeue").iterdir():
        path.unlink()
    settings = ("--set", "storeType=DefaultRocksDB", "--set", "enableLmq=true")
    assert rmqctl(*settings, "rebuild", "--queues", "--yes", store=root).code == 0
    assert keys_of(root, tmp_path) == written_keys("rocksdb")


def test_the_files_are_those_of_a_broker_that_was_closed(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    rebuild(root)
    names = {path.name.partition("-")[0] for path in (root / "consumequeue").iterdir() if path.suffix != ".sst"}
    assert names == {"000004.log", "CURRENT", "IDENTITY", "LOCK", "MANIFEST", "OPTIONS"}


def test_without_the_binding_it_says_how_to_install_it(without_rocksdict: None, tmp_path: Path) -> None:
    run = rmqctl("rebuild", "--queues", "--yes", store=copy_of_five("rocksdb", tmp_path))
    assert run.code == 2
    assert "pip install 'rmqctl[rocksdb]'" in run.err


# What is shown of them.


def test_the_extents_of_queues_are_those_of_the_broker() -> None:
    found = {(one.topic, one.queue_id): one for one in queue_ends(StoreReader(str(five("rocksdb") / "store")))}
    expected = {(one["topic"], one["queue"]): answer for one, answer in asked("rocksdb", "minmax")}
    assert found
    for key, one in found.items():
        assert (one.min_offset, one.max_offset) == (expected[key]["min"], expected[key]["max"])


def test_info_counts_the_messages() -> None:
    found = rmqctl("--format", "json", "info", store=five("rocksdb") / "store").json
    assert (found["topic_count"], found["queue_count"], found["message_count"]) == (5, 7, 182)
    assert found["queues_built_to"] == found["log_end"]


def test_lag_and_doctor_know_the_queues() -> None:
    root = five("rocksdb") / "store"
    assert rmqctl("--format", "json", "lag", store=root).code == 0
    assert rmqctl("--format", "json", "doctor", store=root).json["message_count"] == 182


@pytest.mark.parametrize("name", NAMES)
def test_dump_shows_every_unit(name: str) -> None:
    folder = five(name) / "store/consumequeue"
    rows = rmqctl("--format", "json", "dump", "consumequeue", str(folder)).json["entries"]
    shown = {
        unit_key(one["topic"], one["queue_id"], one["queue_offset"]): struct.pack(
            ">qiqq", one["log_offset"], one["size"], one["tags_code"], one["store_timestamp_ms"]
        )
        for one in rows
    }
    assert shown == {key: value for (family, key), value in written_keys(name).items() if family == "default"}


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        (["RockA/0", "--from", "40"], [40, 41]),
        (["RockA/1", "--to", "1"], [0, 1]),
        (["RockBatch"], [0, 4, 5, 6, 7, 8, 13, 17, 18, 19, 21, 22, 23, 24, 30, 31, 32]),
    ],
)
def test_dump_shows_one_queue_of_the_store(words: list[str], offsets: list[int]) -> None:
    run = rmqctl("--format", "json", "dump", "consumequeue", *words, store=five("rocksdb") / "store")
    shown = [one["queue_offset"] for one in run.json["entries"]]
    assert shown == offsets


def test_a_unit_behind_the_newest_is_shown_as_stale(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    edit(root, lambda units, offsets: units.__setitem__(unit_key("RockA", 0, 99), bytes(28)))
    run = rmqctl("--format", "json", "dump", "consumequeue", "RockA/0", "--from", "41", store=root)
    assert [(one["kind"], one["queue_offset"]) for one in run.json["entries"]] == [("unit", 41), ("stale", 99)]


def test_dump_of_an_unknown_queue_is_refused() -> None:
    run = rmqctl("dump", "consumequeue", "RockA/77", store=five("rocksdb") / "store")
    assert (run.code, run.err) == (2, "rmqctl: no queue RockA/77 is in the RocksDB\n")


def test_salvage_puts_the_messages_into_queue_files(tmp_path: Path, without_rocksdict: None) -> None:
    target = tmp_path / "new"
    run = rmqctl("salvage", "--to", str(target), store=five("rocksdb") / "store")
    assert (run.code, "queues without a record start at 0: " in run.err) == (0, True)
    with open_store(target) as store:
        assert store.topics() == ["%LMQ%r1", "%LMQ%r2", "RockA", "RockBatch", "RockBee"]


def test_a_checkpoint_behind_the_units_is_no_trap_of_a_start(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    edit(root, set_checkpoint_back)
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert (start["starts"], start["traps"]) == (True, [])


def test_a_database_whose_files_can_not_be_written_is_an_error(tmp_path: Path) -> None:
    writer = DatabaseWriter(tmp_path / "queues", Filesystem())
    writer.keep_ends({("T", 0): Place(100, 1)})
    (tmp_path / "queues").rename(tmp_path / "away")
    with pytest.raises(StoreIOError, match="queues"):
        writer.finish(None)


IN_ROCKSDB = ("--set", "storeType=defaultRocksDB")


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("consumed", "next_offset", "said"),
    [
        ({"Old@g": {"0": 28}, "Old@h": {"0": 30}}, 30, "Old/0 goes on at 30, the largest offset of a consumer"),
        # The offsets of a deleted topic stay in the table.
        (
            {"Old@g": {"0": 30}, "Deleted@g": {"0": 9}},
            30,
            "Old/0 goes on at 30, the largest offset of a consumer",
        ),
        ({"Old@g": {"0": 0}}, 0, "1 queue of topics.json may have been one, and begin at 0: Old/0"),
        ({}, 0, "1 queue of topics.json may have been one, and begin at 0: Old/0"),
    ],
)
def test_ends_of_expired_queues_that_a_damaged_database_loses_are_said_or_told_by_consumers(
    consumed: dict[str, dict[str, int]], next_offset: int, said: str, tmp_path: Path
) -> None:
    root = expired_store(tmp_path / "store")
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "config", ignore_errors=True)
    (root / "config").mkdir()
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": consumed}))
    table = {topic: {"topicName": topic, "writeQueueNums": 1} for topic in ("Old", "TBW102")}
    (root / "config/topics.json").write_text(json.dumps({"topicConfigTable": table}))
    (root / "consumequeue").mkdir()
    (root / "consumequeue/CURRENT").write_bytes(b"damage")
    run = rmqctl(*IN_ROCKSDB, "--set", "mappedFileSizeConsumeQueue=400", "rebuild", "--queues", "--yes", store=root)
    assert run.code == 1
    assert [line.split("; ")[1:] for line in run.err.splitlines() if "have all expired" in line] == [[said]]
    log_start = StoreReader(str(root)).segments()[0].number
    ends = {one.topic: (one.min_offset, one.max_offset) for one in queue_ends(StoreReader(str(root)), log_start)}
    assert ends.get("Old", (0, 0)) == (next_offset, next_offset)
    with open_store(root) as store:
        assert (store.min_offset("Old", 0), store.max_offset("Old", 0)) == (next_offset, next_offset)
