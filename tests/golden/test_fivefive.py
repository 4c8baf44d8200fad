"""Stores of a real 5.5.0 broker (fixtures/fivefive): what they are, what is wrong with them, what its starts did."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from store import RebuildScope, SimulatedStart, check, open_store, plan_rebuild, simulate
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.opened.detect import detect_line
from tests.cli.running import rmqctl
from tests.support.five_stores import fivefive
from tests.support.golden import copy_store

GEOMETRY = {"maxHashSlotNum": 500, "maxIndexNum": 1000}
SOUND = (
    "plain",
    "bulk",
    "index",
    "index-only",
    "trans",
    "timer",
    "snapshot",
    "combine",
    "combine-separate",
    "rocksdbcq-separate",
)
KILLED = ("index-killed", "index-killed-wal")
ALL = (*SOUND, *KILLED)
UNIT = 20


def copy_of(name: str, tmp_path: Path) -> Path:
    return copy_store(fivefive(name) / "store", tmp_path / "store")


def start_of(root: Path, **settings: object) -> SimulatedStart:
    return simulate(root, compat="5.5", settings=settings)


def lines_of(file: Path, kind: str) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines that have a field of that name."""
    return [found for line in file.read_text().splitlines() if kind in (found := json.loads(line))]


def zero_unit(root: Path, log_offset: int) -> None:
    """Put zeros in the place of the unit of one record."""
    for file in root.glob("consumequeue/*/*/*"):
        data = bytearray(file.read_bytes())
        for at in range(0, len(data), UNIT):
            if int.from_bytes(data[at : at + 8], "big") == log_offset and any(data[at : at + UNIT]):
                data[at : at + UNIT] = bytes(UNIT)
                file.write_bytes(data)


@pytest.mark.parametrize("name", ALL)
def test_a_store_of_5_5_is_one(name: str) -> None:
    layout = StoreLayout(fivefive(name) / "store")
    assert detect_line(layout, Filesystem()).name == "5.5"


@pytest.mark.parametrize("name", [*SOUND, *KILLED])
def test_a_sound_or_killed_store_has_no_finding(name: str) -> None:
    pytest.importorskip("rocksdict")
    assert list(check(fivefive(name) / "store")) == []
    run = rmqctl("-f", "json", "info", store=fivefive(name) / "store")
    assert [one["what"] for one in run.json["problems"] if one["what"] != "not shut down"] == []


@pytest.mark.parametrize("name", ["plain", "combine"])
def test_a_lost_index_is_built_as_the_broker_wrote_it(name: str, tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    root = copy_of(name, tmp_path)
    files = sorted((root / "index").iterdir())
    wanted = [file.read_bytes() for file in files]
    shutil.rmtree(root / "index")
    with plan_rebuild(root, RebuildScope(queues=False), settings=GEOMETRY) as change:
        change.apply()
    assert [file.read_bytes() for file in sorted((root / "index").iterdir())] == wanted


# Where 5.5.0 began, and how many messages no queue showed then: damaged.jsonl of each store.
@pytest.mark.parametrize(
    ("is_killed", "settings", "start", "unseen"),
    [
        pytest.param(False, {}, 4 * 65536, 120, id="shut down"),
        pytest.param(True, {}, 4 * 65536, 120, id="killed, without a checkpoint"),
        pytest.param(False, {"commitLogRecoverMaxNum": 100}, 0, 0, id="with room for all segments"),
        pytest.param(False, {"commitLogRecoverMaxNum": 13}, 65536, 30, id="with room for all but one"),
        pytest.param(False, {"commitLogRecoverMaxNum": 0}, 4 * 65536, 120, id="with no number"),
    ],
)
def test_a_start_without_queues_builds_those_of_some_segments(
    is_killed: bool, settings: dict[str, object], start: int, unseen: int, tmp_path: Path
) -> None:
    root = copy_of("bulk", tmp_path)
    shutil.rmtree(root / "consumequeue")
    if is_killed:
        (root / "abort").touch()
        (root / "checkpoint").unlink()
    found = start_of(root, **settings)
    assert (found.starts, found.start_segment, sum(found.unseen.values())) == (True, start, unseen)


@pytest.mark.parametrize(("units", "unseen"), [((5073,), 1), ((4908, 5073), 1)])
def test_the_record_at_the_queues_end_is_left_out(units: tuple[int, ...], unseen: int, tmp_path: Path) -> None:
    root = copy_of("plain", tmp_path)
    for log_offset in units:
        zero_unit(root, log_offset)
    found = start_of(root)
    assert (found.log_end, sum(found.unseen.values())) == (5257, unseen)


@pytest.mark.parametrize("offset", [0, 5073, 9_999_999])
def test_a_killed_store_is_read_from_where_its_checkpoint_says(offset: int, tmp_path: Path) -> None:
    root = copy_of("plain", tmp_path)
    (root / "abort").touch()
    page = bytearray((root / "checkpoint").read_bytes())
    page[40:48] = offset.to_bytes(8, "big")
    (root / "checkpoint").write_bytes(page)
    found = start_of(root)
    assert (found.starts, found.mode, found.start_segment, found.log_end) == (True, "abnormal", 0, 5257)
    assert (found.lost.messages, sum(found.unseen.values())) == (0, 0)


@pytest.mark.parametrize("name", ["plain", "combine", "combine-separate", "rocksdbcq-separate"])
def test_queues_are_those_that_the_broker_reads(name: str) -> None:
    pytest.importorskip("rocksdict")
    wanted = {line["queue"]: line for line in lines_of(fivefive(name) / "write.jsonl", "queue") if line["max"]}
    with open_store(fivefive(name) / "store") as store:
        for queue, line in wanted.items():
            topic, _, queue_id = queue.rpartition("-")
            found = store.get(topic, int(queue_id), line["min"], 1000).messages
            units = [[message.queue_offset, message.log_offset, message.size] for message in found]
            assert (queue, units) == (queue, [unit[:3] for unit in line["units"]])
    assert wanted


def test_light_queues_that_are_in_the_database_alone_are_read_from_it() -> None:
    """combineCQUseRocksdbForLmq: they have no files."""
    pytest.importorskip("rocksdict")
    root = fivefive("combine-separate")
    wanted: dict[str, list[list[int]]] = {}
    for line in lines_of(root / "keys-consumequeue_rocksdb.jsonl", "unit"):
        if line["topic"].startswith("%LMQ%"):
            wanted.setdefault(line["topic"], []).append([line["cqOffset"], *line["unit"][:2]])
    with open_store(root / "store") as store:
        found = {
            topic: [
                [number, message.log_offset, message.size]
                for number, message in enumerate(store.get(topic, 0, 0, 100).messages)
            ]
            for topic in store.topics()
            if topic.startswith("%LMQ%")
        }
        ends = [(one.queue_id, one.min_offset, one.max_offset) for one in store.queues() if one.topic == "%LMQ%a"]
    assert (found, ends) == (wanted, [(0, 0, 6)])
    assert {name: len(units) for name, units in found.items()} == {"%LMQ%a": 6, "%LMQ%b": 6}
    assert rmqctl("--store", root / "store", "info").out.splitlines()[0] == (
        "a 5.5 store, 47 messages in the queues of 5 topics; nothing is missing"
    )


REFUSED = (
    False,
    "IllegalStateException: find RocksDBConsumeQueue in original/separate path, maybe incompatible config.",
)


def refused(end: str) -> tuple[bool, str]:
    """Return the refusal of a broker that combines queues in files and in a RocksDB."""
    return False, f"IllegalArgumentException: CombineConsumeQueue{end}"


@pytest.mark.parametrize(
    ("name", "is_twice", "settings", "outcome"),
    [
        ("rocksdbcq-separate", False, {}, (True, "")),
        ("rocksdbcq-separate", False, {"useSeparateStorePathForRocksdbCQ": "true"}, (True, "")),
        ("rocksdbcq-separate", False, {"useSeparateStorePathForRocksdbCQ": "false"}, REFUSED),
        ("rocksdbcq-separate", True, {"useSeparateStorePathForRocksdbCQ": "true"}, REFUSED),
        ("combine", False, {}, (True, "")),
        ("combine", False, {"useSeparateStorePathForRocksdbCQ": "false"}, (True, "")),
        ("combine", False, {"useSeparateStorePathForRocksdbCQ": "true"}, REFUSED),
        ("combine", False, {"rocksdbCQDoubleWriteEnable": "true"}, (True, "")),
        ("combine", False, {"combineCQUseRocksdbForLmq": "true"}, (True, "")),
        ("combine", False, {"combineCQLoadingCQTypes": " defaultrocksdb ;DEFAULT;other"}, (True, "")),
        ("combine", False, {"combineCQLoadingCQTypes": "other"}, refused("Store loadingCQTypes is empty")),
        ("combine", False, {"combineAssignOffsetCQType": "other"}, refused(" chooseAssignOffsetStore fail")),
        ("combine", False, {"combineCQLoadingCQTypes": "defaultRocksDB"}, refused(" chooseAssignOffsetStore fail")),
        (
            "combine",
            False,
            {"combineCQLoadingCQTypes": "default", "combineCQPreferCQType": "defaultRocksDB"},
            refused(" choosePreferCQ fail"),
        ),
        (
            "combine",
            False,
            {"combineCQLoadingCQTypes": "default", "combineCQUseRocksdbForLmq": "true"},
            refused("Store rocksdbCQ is not ready for LMQ"),
        ),
        (
            "combine",
            False,
            {"combineAssignOffsetCQType": "DefaultRocksDB", "combineCQUseRocksdbForLmq": "true"},
            refused("Store maybe incorrect config"),
        ),
        ("combine", False, {"combineCQLoadingCQTypes": "other", "rocksdbCQDoubleWriteEnable": "false"}, (True, "")),
        ("rocksdbcq-separate", False, {"combineCQLoadingCQTypes": "other"}, (True, "")),
        ("plain", False, {"useSeparateStorePathForRocksdbCQ": "true"}, (True, "")),
        (
            "plain",
            False,
            {"combineCQLoadingCQTypes": "other", "rocksdbCQDoubleWriteEnable": "true"},
            refused("Store loadingCQTypes is empty"),
        ),
    ],
)
def test_a_start_ends_where_settings_contradict_the_queue_database(
    name: str, is_twice: bool, settings: dict[str, object], outcome: tuple[bool, str], tmp_path: Path
) -> None:
    pytest.importorskip("rocksdict")
    root = copy_of(name, tmp_path)
    if is_twice:
        (root / "consumequeue" / "CURRENT").touch()
    found = start_of(root, **settings)
    assert (found.starts, found.reason) == outcome


def test_without_its_queue_database_a_start_leaves_the_first_record_out(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    root = copy_of("rocksdbcq-separate", tmp_path)
    shutil.rmtree(root / "consumequeue_rocksdb")
    found = start_of(root, storeType="defaultRocksDB", useSeparateStorePathForRocksdbCQ="true")
    assert (found.starts, found.log_end, found.unseen) == (True, 5257, {("TopicA", 0): 1})
    assert [trap.code for trap in found.traps] == ["record-at-queue-end", "lost-queue"]
    assert found.traps[0].detail == "the record at log offset 0 gets no entry"


def test_a_queue_database_of_its_own_folder_is_rebuilt_there(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    root = copy_of("rocksdbcq-separate", tmp_path)
    with plan_rebuild(root, RebuildScope(index=False)) as change:
        assert {action.path.parent.name for action in change.actions} == {"consumequeue_rocksdb"}
        change.apply()
    assert list(check(root)) == []


@pytest.mark.parametrize(("name", "left"), [("plain", []), ("snapshot", []), ("index", ["rocksdbstore"])])
def test_a_salvaged_store_lacks_what_a_broker_has_put_into_its_database(
    name: str, left: list[str], tmp_path: Path
) -> None:
    run = rmqctl("-f", "json", "salvage", "--to", tmp_path / "new", store=fivefive(name) / "store")
    remark = "a broker creates a new one, and its index begins with new messages: older ones are in the index files"
    lacking = [(one["file"], one["remark"]) for one in run.json["brought"] if not one["copied_from"]]
    assert [one for one in lacking if not one[0].startswith("config/")] == [(file, remark) for file in left]


@pytest.mark.parametrize("name", ["index", "index-only"])
def test_messages_are_found_by_key_and_tags_as_the_broker_finds_them(name: str) -> None:
    asked = [line for line in lines_of(fivefive(name) / "write.jsonl", "queryOffset") if line["res"] is not None]
    with open_store(fivefive(name) / "store") as store:
        for line in asked:
            topic, key, kind = line["queryOffset"]
            found = store.query(topic, key, by_tags=kind == "T").messages
            # A key that is twice in a record has two entries in a file, and one in the database.
            assert (key, sorted({one.log_offset for one in found})) == (key, sorted(line["res"]))
    assert len(asked) > 10


@pytest.mark.parametrize("name", ["index", "index-only"])
def test_the_index_in_the_database_answers_as_the_broker_does(name: str) -> None:
    pytest.importorskip("rocksdict")
    lines = [line for line in lines_of(fivefive(name) / "write.jsonl", "queryOffset") if line["res"] is not None]
    with open_store(fivefive(name) / "store") as store:
        for line in lines:
            topic, key, kind = line["queryOffset"]
            found = store.query(topic, key, by_tags=kind == "T", in_database=True)
            places = [message.log_offset for message in found.messages]
            wanted = line["res"], line["lastUpdateTime"], line["lastUpdatePhy"]
            reached = found.last_update_timestamp_ms, found.last_update_log_offset
            assert (places, *(reached if places else wanted[1:])) == wanted, key
    assert len(lines) == 14


def test_a_line_without_tags_in_its_index_refuses_to_look_for_them() -> None:
    told = "5.3 broker has no tags in its index"
    with open_store(fivefive("plain") / "store", compat="5.3") as store, pytest.raises(BadRequest, match=told):
        store.query("TopicA", "tag0", by_tags=True)


def test_an_index_in_the_database_alone_is_no_lost_one() -> None:
    pytest.importorskip("rocksdict")
    assert start_of(fivefive("index-only") / "store").traps == []
    with open_store(fivefive("index-only") / "store") as store:
        assert not store.config.writes_index_files
    with open_store(fivefive("index") / "store") as store:
        assert store.config.writes_index_files
