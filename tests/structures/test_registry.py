"""The registry: what each structure is, which verbs it refuses, and by which names it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.topics import LMQ_PREFIX
from store.layout import StoreLayout
from store.structures.registry import (
    CHANGES,
    STRUCTURES,
    Names,
    Trace,
    is_of_a_database,
    is_present,
    names_of,
    present,
    refusing,
    structure_of,
    unknown_names,
)

DATABASE = {"checkpoint", "delay", "put", "receive", "resolve", "spark", "start"}
REFUSED: dict[str, set[str]] = {
    "commit log": set(CHANGES - {"receive"}),
    "dledger": {"back up", "clean", "put", "resolve", "spark", "truncate"},
    "light queue": {"spark"},
    "queue database": DATABASE,
    "queue database of its own folder": DATABASE,
    "batch queue": {"spark"},
    "message database": {"put", "receive", "resolve", "timer"},
}
OLD = {"commit log", "checkpoint", "abort marker", "lock", "consume queue", "light queue", "extension", "index",
       "delay offsets", "dledger", "tables"}  # fmt: skip
NEWEST = {"queue database of its own folder", "message database", "wheel snapshots", "one RocksDB for all tables"}


def test_each_structure_refuses_the_verbs_that_would_leave_it_inconsistent() -> None:
    assert {one.name: set(one.refuses) for one in STRUCTURES if one.refuses} == REFUSED
    assert {"put", "clean", "truncate", "resolve", "recover", "checkpoint", "delay", "timer", "rebuild",
                       "spark", "receive"} == CHANGES  # fmt: skip


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("holds_queues", "queue database"), ("shares_records", "light queue"), ("groups_messages", "batch queue"),
        ("holds_keys", "message database"), ("holds_names", "tiered storage"),
    ],
)  # fmt: skip
def test_one_structure_has_each_trait(flag: str, name: str) -> None:
    assert [one.name for one in STRUCTURES if getattr(one, flag)] == [name]


def test_each_structure_has_the_versions_that_write_it() -> None:
    by_lines = {
        lines: {one.name for one in STRUCTURES if one.lines == lines} for lines in {s.lines for s in STRUCTURES}
    }
    assert by_lines[()] == {"structure of a newer broker"}
    assert by_lines["4.9", "5.3", "5.5"] == OLD
    assert by_lines["5.5",] == NEWEST
    assert set(by_lines) == {(), ("4.9", "5.3", "5.5"), ("5.5",), ("5.3", "5.5")}
    assert [bool(one.newer) for one in STRUCTURES] == [not one.lines for one in STRUCTURES]


def names(*paths: str, **texts: bytes) -> Names:
    """The names of a store with these files, some of them with a text."""

    def of(folder: str) -> list[str]:
        below = [path.removeprefix(f"{folder}/") if folder else path for path in paths
                 if not folder or path.startswith(f"{folder}/")]  # fmt: skip
        return sorted({path.split("/")[0] for path in below})

    exists = {"/".join(path.split("/")[:depth]) for path in paths for depth in range(1, 9)}
    return Names(of, exists.__contains__, lambda path: texts.get(path.rpartition("/")[2].partition(".")[0]))


@pytest.mark.parametrize(
    ("trace", "has"),
    [
        (Trace("abort"), True), (Trace("abor"), False), (Trace("config/topics.json"), True), (Trace("config"), True),
        (Trace("config/topics.json", b"queue.type"), True), (Trace("config/topics.json", b"other"), False),
        (Trace("dledger-*"), True), (Trace("timerwheel.[0-9]*"), False), (Trace("other/topics.json"), False),
    ],
)  # fmt: skip
def test_a_trace_is_a_path_with_its_bytes(trace: Trace, has: bool) -> None:
    assert names("abort", "config/topics.json", "dledger-n0/data", topics=b"{queue.type}").has(trace) is has


def test_a_reader_s_names_find_traces_by_their_bytes_only_where_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "config/folder").mkdir(parents=True)
    (tmp_path / "config/topics.json").write_bytes(b"{queue.type}")
    reader = StoreReader(str(tmp_path))
    traces = [Trace("config/topics.json"), *(Trace("config/topics.json", holds) for holds in (b"queue.type", b"other")),
              Trace("config/none.json", b"x"), Trace("config/folder", b"x")]  # fmt: skip
    found = {reads: list(map(Names.of_files(reader, reads=reads).has, traces)) for reads in (True, False)}
    assert found == {True: [True, True, False, False, False], False: [True, False, False, False, False]}
    assert list(map(Names.of_files(reader).has, traces)) == found[True]


def test_structures_of_a_store_come_in_the_registry_s_order() -> None:
    store = names("lock", "commitlog/0", "consumequeue/T/0", "index/1", "rocksdbstore/CURRENT")
    assert [one.name for one in present(store)] == [
        "commit log", "lock", "consume queue", "message database", "index"
    ]  # fmt: skip
    assert [one.name for one in present(store, in_database=True)] == [
        "commit log", "lock", "consume queue", "queue database", "message database", "index"
    ]  # fmt: skip
    database = next(one for one in STRUCTURES if one.name == "queue database")
    assert [is_present(database, store, in_database=flag) for flag in (False, True)] == [False, True]
    assert [one.name for one in refusing(store, "timer")] == ["commit log", "message database"]
    assert [one.name for one in refusing(names("index/1"), "put")] == []


@pytest.mark.parametrize(
    ("name", "structure"),
    [
        ("commitlog", "commit log"), ("consumequeue", "consume queue"), ("dledger-n0", "dledger"),
        ("batchconsumequeue", "batch queue"), ("config", "tables"), ("timerwheel.52", "wheel snapshots"),
        ("timerwheel", "timer"), ("other", None),
    ],
)  # fmt: skip
def test_a_name_in_the_root_belongs_to_a_structure(name: str, structure: str | None) -> None:
    found = structure_of(name)
    assert (found.name if found is not None else None) == structure


def test_names_of_no_structure_are_unknown_and_those_of_databases_apart(tmp_path: Path) -> None:
    for name in ("commitlog/x", "new/CURRENT", "other/x", "zeta", "lost+found/x", ".rmqctl/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = names_of(StoreLayout(tmp_path), Filesystem())
    assert unknown_names(found) == ["other", "zeta"]
    assert unknown_names(found, databases=True) == ["new"]
    assert [is_of_a_database(path) for path in ("a/CURRENT", "a/000001.sst", "CURRENT/a")] == [True, True, False]


@pytest.mark.parametrize("has_member", [False, True])
def test_a_member_s_folder_is_named_in_the_root_even_if_it_is_missing(has_member: bool, tmp_path: Path) -> None:
    member = tmp_path / "dledger-n0" if has_member else None
    found = names_of(StoreLayout(tmp_path, dledger=member), Filesystem())
    assert [sorted(found.of(folder)) for folder in ("", "config")] == [["dledger-n0"] * has_member, []]


def test_a_folder_is_listed_where_the_folder_above_does_not_name_it() -> None:
    """Queues that a reader builds lie beside the store."""
    built = {"consumequeue": [f"{LMQ_PREFIX}a"]}
    names = Names(lambda folder: built.get(folder, []), lambda path: True, lambda path: None)
    assert names.has(Trace(f"consumequeue/{LMQ_PREFIX}*"))
