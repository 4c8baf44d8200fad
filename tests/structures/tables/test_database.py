"""Tables in a RocksDB under config/: read as the JSON files would have them, and changed by no command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from store.errors import DamagedFile
from store.files.filesystem import Filesystem
from store.structures.tables.config_file import read_config_file
from tests.cli.running import rmqctl
from tests.support.golden import copy_store, golden
from tests.support.table_databases import (
    ENTRIES,
    GROUP,
    OFFSETS,
    TOPIC,
    VERSION,
    VERSION_ENTRY,
    make_database,
    second_generation,
    separate,
    single,
)

pytest.importorskip("rocksdict")
DOCUMENTS = {
    "topics.json": {"dataVersion": VERSION, "topicConfigTable": {"Orders": TOPIC}},
    "subscriptionGroup.json": {"dataVersion": VERSION, "subscriptionGroupTable": {"billing": GROUP}},
    "consumerOffset.json": {"dataVersion": VERSION, "offsetTable": OFFSETS},
}


LAYOUTS = [
    pytest.param(single, "metadata", id="one for all (5.4)"),
    pytest.param(separate, None, id="one each"),
    pytest.param(second_generation, "rdb", id="v2"),
]


@pytest.mark.parametrize(("make", "folder"), LAYOUTS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_table_is_read_from_its_database(name: str, make: object, folder: str | None, tmp_path: Path) -> None:
    make(tmp_path)  # type: ignore[operator]
    file = read_config_file(tmp_path, name, Filesystem())
    table = {**DOCUMENTS[name]}
    if name == "consumerOffset.json":
        table["offsetTable"] = {key: dict(queues) for key, queues in OFFSETS.items()}
    assert file.loaded is not None
    assert _by_number(file.loaded.document) == _by_number(table)
    own = {"topics.json": "topics", "subscriptionGroup.json": "subscriptionGroups"}.get(name, "consumerOffsets")
    assert (file.loaded.path.name, file.is_in_database) == (folder or own, True)


def _by_number(document: object) -> object:
    """JSON has texts for the ids of queues, Fastjson numbers."""
    return json.loads(json.dumps(document))


@pytest.mark.parametrize(("counter", "is_in_database"), [(6, True), (7, True), (8, False)])
def test_a_json_file_counts_where_its_version_is_newer(counter: int, is_in_database: bool, tmp_path: Path) -> None:
    single(tmp_path)
    document = {"dataVersion": {**VERSION, "counter": counter}, "topicConfigTable": {}}
    (tmp_path / "topics.json").write_text(json.dumps(document))
    assert read_config_file(tmp_path, "topics.json", Filesystem()).is_in_database is is_in_database


def test_a_database_without_a_family_has_no_version_or_no_entries(tmp_path: Path) -> None:
    make_database(tmp_path / "topics", {"default": ENTRIES["topic"]})
    make_database(tmp_path / "consumerOffsets", {"default": {}})
    make_database(tmp_path / "metadata", {"subscriptionGroupVersion": VERSION_ENTRY})
    found = [read_config_file(tmp_path, name, Filesystem()).main.document for name in DOCUMENTS]
    assert found == [
        {"topicConfigTable": {"Orders": TOPIC}},
        {"dataVersion": VERSION, "subscriptionGroupTable": {}},
        {"offsetTable": {}},
    ]


def test_of_two_databases_the_one_with_the_newer_table_counts(tmp_path: Path) -> None:
    separate(tmp_path)
    newer = {b"kvDataVersionKey": json.dumps({**VERSION, "counter": 8}).encode()}
    make_database(tmp_path / "metadata", {"topic": {}, "topicVersion": newer})
    file = read_config_file(tmp_path, "topics.json", Filesystem())
    assert (file.main.path.name, file.main.document) == (
        "metadata",
        {"dataVersion": {**VERSION, "counter": 8}, "topicConfigTable": {}},
    )


def test_a_database_that_does_not_open_is_damaged(tmp_path: Path) -> None:
    single(tmp_path)
    next((tmp_path / "metadata").glob("MANIFEST*")).unlink()
    with pytest.raises(DamagedFile):
        read_config_file(tmp_path, "topics.json", Filesystem())


def test_lag_goes_by_the_database_and_no_command_writes_beside_it(tmp_path: Path) -> None:
    root = copy_store(golden("normal").store, tmp_path / "store")
    (root / "config").mkdir(exist_ok=True)
    single(root / "config")
    found = rmqctl("--format", "json", "config", "show", "consumerOffset", store=root).json["entries"]
    names = [(one["section"], one["name"]) for one in found if "Orders" in one["name"]]
    assert names == [("offsetTable", "Orders@billing")]
    for words in (
        ["config", "reset-offsets", "billing", "--topic", "TopicA", "--to", "first", "--yes"],
        ["rebuild", "topics", "--yes"],
    ):
        run = rmqctl(*words, store=root)
        assert (run.code, "is in a RocksDB here" in run.err) == (4, True), words
