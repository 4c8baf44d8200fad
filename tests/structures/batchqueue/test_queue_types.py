"""The topics with batch queues: by their folders first, else by topics.json."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from store import check, open_store
from store.config import StoreConfig
from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.formats.message import INNER_BATCH
from store.formats.properties import encode_properties
from store.formats.run import Run
from store.layout import StoreLayout
from store.structures.batchqueue.guard import refuse
from store.structures.batchqueue.queue_types import (
    batch_topics,
    configured_types,
    mismatched_topics,
    other_queues,
    topics_with_files,
)
from store.structures.commitlog.scan import scan_log
from store.structures.tables.topics import record_attributes
from tests.cli.running import rmqctl
from tests.support.five_stores import copy_of_five
from tests.support.logs import record
from tests.support.small_log import SmallSegment

TYPES = {"A": "BatchCQ", "B": "BatchCQ", "C": "SimpleCQ", "D": None, "E": "BatchCQ"}
ENTRIES = {
    name: {"topicName": name, "attributes": {} if kind is None else {"queue.type": kind, "other": "x"}}
    for name, kind in TYPES.items()
}
DOCUMENT = {"topicConfigTable": ENTRIES, "dataVersion": {"counter": 1}}
FS = Filesystem()


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    """Folders with queues: A and C of batches, B and F plain; E and G are empty."""
    for name in ("batchconsumequeue/A/0", "batchconsumequeue/C/0", "consumequeue/B/0", "consumequeue/F/0"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("batchconsumequeue/G", "consumequeue/E"):
        (tmp_path / name).mkdir()
    (tmp_path / "batchconsumequeue/file").touch()
    (tmp_path / "config").mkdir()
    (tmp_path / "config/topics.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    return StoreLayout(tmp_path)


def test_a_topics_folder_decides_before_its_attribute(layout: StoreLayout) -> None:
    assert configured_types(layout, FS) == {"A": "BatchCQ", "B": "BatchCQ", "C": "SimpleCQ", "E": "BatchCQ"}
    assert batch_topics(layout, FS) == topics_with_files(layout, FS) == {"A", "C", "E"}
    found = other_queues(layout, StoreConfig(), FS)
    assert (found.topics, found.folder) == ({"A", "C", "E"}, "batchconsumequeue")
    assert found.file_size == StoreConfig().mapper_file_size_batch_consume_queue
    in_database = StoreConfig().with_settings({"storeType": "defaultRocksDB"})
    assert other_queues(layout, in_database, FS).topics == frozenset()


def test_each_folder_of_another_type_is_named_in_order(layout: StoreLayout) -> None:
    assert mismatched_topics(layout, FS) == [
        "B: its folder holds queues of type SimpleCQ, topics.json says BatchCQ",
        "C: its folder holds queues of type BatchCQ, topics.json says SimpleCQ",
    ]


def test_topics_that_are_rebuilt_have_the_type_of_their_folders(tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    shutil.rmtree(root / "config")
    assert [one.kind for one in check(root)] == ["queue-type", "queue-type"]
    assert rmqctl("rebuild", "topics", "--yes", store=root).code == 0
    assert list(check(root)) == []
    assert set(configured_types(StoreLayout(root), FS)) == {"BatchA", "BatchB"}


@pytest.mark.parametrize(
    ("name", "lost"), [("bcq", ["batchconsumequeue"]), ("bcq-aborted", ["batchconsumequeue", "consumequeue"])]
)
def test_topics_whose_folders_are_lost_have_the_type_of_their_records(
    name: str, lost: list[str], tmp_path: Path
) -> None:
    root = copy_of_five(name, tmp_path)
    with open_store(root) as store:
        before = {(one.topic, one.queue_id): (one.min_offset, one.max_offset) for one in store.queues()}
    types = configured_types(StoreLayout(root), FS)
    for folder in ("config", *lost):
        shutil.rmtree(root / folder)
    assert rmqctl("rebuild", "topics", "--yes", store=root).code == 0
    assert configured_types(StoreLayout(root), FS) == {name: kind for name, kind in types.items() if kind == "BatchCQ"}
    assert rmqctl("rebuild", "--yes", store=root).code == 0
    assert list(check(root)) == []
    with open_store(root) as store:
        assert {(one.topic, one.queue_id): (one.min_offset, one.max_offset) for one in store.queues()} == before


def test_a_plain_folder_decides_before_the_records_and_the_records_before_the_entry(tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    document = json.loads((root / "config/topics.json").read_bytes())
    for entry in document["topicConfigTable"].values():
        entry["attributes"] = {}
    (root / "config/topics.json").write_text(json.dumps(document))
    shutil.rmtree(root / "batchconsumequeue")
    (root / "consumequeue/BatchB/0").mkdir(parents=True)
    assert rmqctl("rebuild", "topics", "--yes", store=root).code == 0
    assert configured_types(StoreLayout(root), FS) == {"BatchA": "BatchCQ"}


NEEDED = [
    f"warning: {topic}: its records need queue.type=BatchCQ in topics.json, or its queues are built as plain; "
    "rebuild topics first"
    for topic in ("BatchA", "BatchB")
]


def without_types(folder: Path) -> Path:
    """A store that lost its topics and batch queues."""
    root = copy_of_five("bcq", folder)
    for name in ("config", "batchconsumequeue"):
        shutil.rmtree(root / name)
    return root


@pytest.mark.spark
def test_a_rebuild_on_spark_names_the_topics_that_need_a_type(tmp_path: Path) -> None:
    run = rmqctl("rebuild", "--queues", "--engine", "spark", "--dry-run", store=without_types(tmp_path))
    assert [line for line in run.err.splitlines() if "its records need" in line] == NEEDED, run.err


def test_a_rebuild_without_the_types_names_the_topics_that_need_one(tmp_path: Path) -> None:
    root = without_types(tmp_path)
    for words, warned in (
        (["rebuild", "--queues", "--dry-run"], NEEDED),
        (["rebuild", "--index", "--dry-run"], []),
        (["rebuild", "topics", "--yes"], []),
        (["rebuild", "--queues", "--dry-run"], []),
    ):
        run = rmqctl(*words, store=root)
        assert [line for line in run.err.splitlines() if "its records need" in line] == warned, words


@pytest.mark.parametrize("removed", ["", "batchconsumequeue", "config"])
def test_spark_builds_no_batch_queues_nor_those_of_a_store_without_their_files(
    removed: str, layout: StoreLayout
) -> None:
    if removed:
        shutil.rmtree(layout.root / removed)
    with pytest.raises(UnsupportedFormat, match="batch consume queues"):
        refuse(layout, FS)
    for rest in ("batchconsumequeue", "config"):
        shutil.rmtree(layout.root / rest, ignore_errors=True)
    refuse(layout, FS)


BATCH = {"T": {"queue.type": "BatchCQ"}}


@pytest.mark.parametrize(
    ("sys_flag", "properties", "found"),
    [
        (INNER_BATCH, {"INNER_BASE": "4", "INNER_NUM": "2"}, BATCH),
        (INNER_BATCH | 1, {"INNER_BASE": "4", "INNER_NUM": "2", "KEYS": "a"}, BATCH),
        # In a RocksDB a broker adds no INNER_BASE.
        (INNER_BATCH, {"INNER_NUM": "2"}, BATCH),
        (INNER_BATCH, {"INNER_BASE": "4"}, {}),
        (0, {"INNER_BASE": "4", "INNER_NUM": "2"}, {}),
    ],
)
def test_a_record_of_several_messages_needs_a_batch_queue(
    sys_flag: int, properties: dict[str, str], found: dict[str, dict[str, str]]
) -> None:
    data = record(b"Plain") + record(
        b"T", position=len(record(b"Plain")), sys_flag=sys_flag, properties=encode_properties(properties)
    )
    (run, _) = scan_log([SmallSegment(memoryview(data))])
    assert isinstance(run, Run)
    assert (run.count, record_attributes(run)) == (2, found)
