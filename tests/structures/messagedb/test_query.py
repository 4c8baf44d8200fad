"""The index of the message database: asked as a broker asks it, and in the place of index files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from store import Message, open_store, plan_truncation
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.layout import StoreLayout
from store.structures.messagedb import query as queries
from store.structures.messagedb.database import open_database
from store.structures.messagedb.keys import HOUR_MS, KEY, LAST_OFFSET, LAST_TIME, TAGS, UNIQUE, IndexEntry
from store.structures.messagedb.query import IndexedLog, indexed_log, query
from tests.cli.running import rmqctl
from tests.support.five_stores import change_database, fivefive
from tests.support.golden import copy_store, golden

pytest.importorskip("rocksdict")
HOUR = 500_000 * HOUR_MS
LAST_MS = (1 << 63) - 1


def entry(log_offset: int, stored_ms: int, unique_key: str, kind: str = KEY, text: str = "k") -> IndexEntry:
    hour_ms = stored_ms - stored_ms % HOUR_MS
    return IndexEntry(hour_ms, "T", kind, "" if kind == UNIQUE else text, unique_key, log_offset, stored_ms)


ENTRIES = (
    entry(10, HOUR + 5, "B"),
    entry(20, HOUR + 9, "A"),
    entry(30, HOUR + 2 * HOUR_MS, "A"),
    entry(40, HOUR + 3 * HOUR_MS - 1, "C"),
    entry(50, HOUR + 7, "k", UNIQUE),
    entry(60, HOUR + 7, "u", UNIQUE),
    entry(70, HOUR + 7, "D", TAGS),
    entry(80, HOUR + 7, "E", KEY, "k@2"),
    # Its hour is none, so a broker never looks there.
    IndexEntry(HOUR + 1, "T", KEY, "k", "F", 90, HOUR + 1),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_store(fivefive("plain") / "store", tmp_path_factory.mktemp("query") / "store")
    change_database(root, {"default": dict(one.encode() for one in ENTRIES)})
    return root


def found(
    root: Path, text: str, span_ms: tuple[int, int] = (0, LAST_MS), most: int = 32, *, tags: bool = False
) -> list[int]:
    return query(StoreLayout(root), Filesystem(), "T", text, most, span_ms, tags).log_offsets


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "wanted"),
    [
        (0, LAST_MS, [80, 20, 10, 30, 40]),
        (HOUR + 5, HOUR + 9, [80, 20, 10]),
        (HOUR + 6, HOUR + 9, [80, 20]),
        (HOUR + 8, HOUR + 8, []),
        (HOUR + 5, HOUR + 5, [10]),
        (HOUR + 10, HOUR + 2 * HOUR_MS - 1, []),
        (HOUR + 10, HOUR + 2 * HOUR_MS, [30]),
        (HOUR + 2 * HOUR_MS + 1, LAST_MS, [40]),
        (HOUR + 3 * HOUR_MS, LAST_MS, []),
    ],
)
def test_places_come_hour_by_hour_and_within_it_by_what_follows_the_key(
    first_ms: int, last_ms: int, wanted: list[int], root: Path
) -> None:
    assert found(root, "k", (first_ms, last_ms)) == wanted


@pytest.mark.parametrize(("most", "wanted"), [(0, []), (1, [80]), (4, [80, 20, 10, 30]), (5, [80, 20, 10, 30, 40])])
def test_the_oldest_hours_count_towards_the_limit(most: int, wanted: list[int], root: Path) -> None:
    assert found(root, "k", most=most) == wanted


def test_a_unique_key_is_asked_for_only_where_there_is_no_such_key(root: Path) -> None:
    assert [found(root, text) for text in ("u", "k@2", "none")] == [[60], [80], []]


@pytest.mark.parametrize(
    ("first", "last", "text", "places"),
    [
        (0, 99, "k", {10, 20, 30, 40, 50}),
        (10, 50, "k", {10, 20, 30, 40, 50}),
        (11, 49, "k", {20, 30, 40}),
        (0, 99, "u", {60}),
        (0, 99, "k@2", {80}),
        (0, 99, "T#k", {70}),
        (0, 99, "T#", set()),
        (0, 99, "T#u", set()),
    ],
)
def test_a_part_of_the_index_has_the_places_of_a_key_a_unique_key_or_named_tags(
    first: int, last: int, text: str, places: set[int], root: Path
) -> None:
    index = IndexedLog(root / "rocksdbstore", Filesystem(), first, last, LAST_MS)
    assert (index.places(["T"], text), index.places(["U"], text)) == (places, set())


def test_tags_are_kept_from_keys(root: Path) -> None:
    assert [found(root, text, tags=True) for text in ("k", "u")] == [[70], []]


def test_a_store_without_such_a_database_says_so() -> None:
    with open_store(golden("normal").store) as store, pytest.raises(BadRequest, match="no database"):
        store.query("T", "k", in_database=True)


def test_the_command_asks_the_database() -> None:
    run = rmqctl("-f", "json", "index-query", "TopicA", "k1", "--database", store=fivefive("index-only") / "store")
    assert [message["log_offset"] for message in run.json["messages"]] == [166, 1010, 3538]
    assert run.json["index_files"] == [{"file": "rocksdbstore"}]


def copy_of(name: str, tmp_path: Path) -> Path:
    return copy_store(fivefive(name) / "store", tmp_path / "store")


def asked(root: Path, key: str, *, by_tags: bool = False) -> tuple[list[int], list[str]]:
    """The places of a key, and what was asked for them."""
    with open_store(root) as store:
        result = store.query("TopicA", key, by_tags=by_tags)
    return [message.log_offset for message in result.messages], result.index_files


def take_entries(root: Path, text: str) -> None:
    """Take the entries of a key from the database; its messages have others."""
    with Scratch() as scratch:
        found = [*open_database(root / "rocksdbstore", scratch.folder, Filesystem()).index()]
    entries = [one for one in found if isinstance(one, IndexEntry) and one.text == text]
    change_database(root, {"default": {one.encode()[0]: None for one in entries}})


K1 = [166, 1010, 3538]
T1, T2, T3 = 1795380335369, 1795380335380, 1795380335405
"""When these were stored."""


def test_without_index_files_the_database_is_asked() -> None:
    root = fivefive("index-only") / "store"
    assert asked(root, "k1") == (K1, ["rocksdbstore"])
    assert asked(root, "7F0000010012345600000000ABCD0001") == ([166], ["rocksdbstore"])
    tagged = asked(fivefive("index") / "store", "tag0", by_tags=True)[0]
    assert asked(root, "tag0", by_tags=True) == (tagged, ["rocksdbstore"])
    assert len(tagged) > 1


def test_a_key_that_the_database_lacks_is_read_from_the_log(tmp_path: Path) -> None:
    root = copy_of("index-only", tmp_path)
    take_entries(root, "k1")
    # A key that is twice in a record counts twice, as in an index file.
    assert asked(root, "k1") == ([166, 1010, 1010, 3538], ["(log from 0)"])


def test_what_is_behind_the_database_is_read_from_the_log(tmp_path: Path) -> None:
    root = copy_of("index-only", tmp_path)
    with open_store(root, read_only=False) as store:
        store.put(Message.of("TopicA", "hello", keys=["k1"], uniq_key="U" * 32))
        store.catch_up()
        served = store.query("TopicA", "k1")
    wanted = [*K1, 5257], ["(log from 5257)", "rocksdbstore"]
    assert ([message.log_offset for message in served.messages], served.index_files) == wanted
    assert asked(root, "k1") == wanted


def test_each_message_is_given_once_where_files_end_before_the_database(tmp_path: Path) -> None:
    root, cut = copy_of("index", tmp_path), copy_of("index", tmp_path / "cut")
    wanted, (name,) = asked(root, "k1")
    with plan_truncation(cut, 1484) as change:
        change.apply()
    (file,) = (cut / "index").iterdir()
    (root / "index" / name).write_bytes(file.read_bytes())
    assert asked(root, "k1") == (wanted, ["rocksdbstore", name])


@pytest.mark.parametrize(
    ("first", "last", "places"),
    [(0, 5073, K1), (166, 3538, K1), (167, 3538, [1010, 3538]), (166, 3537, [166, 1010]), (2000, 3000, [])],
)
def test_a_part_of_the_stretch_gives_its_own_messages(first: int, last: int, places: list[int]) -> None:
    whole = indexed_log(StoreLayout(fivefive("index-only") / "store"), Filesystem())
    assert whole is not None
    part = whole.within(first, last)
    assert (part.first, part.last, sorted(part.places(["TopicA"], "k1"))) == (first, last, places)


@pytest.mark.parametrize(("most", "places"), [(0, []), (1, [3538]), (2, [3538, 1010]), (3, K1[::-1]), (9, K1[::-1])])
def test_the_newest_messages_count_towards_the_limit(most: int, places: list[int]) -> None:
    whole = indexed_log(StoreLayout(fivefive("index-only") / "store"), Filesystem())
    found: list[int] = []
    assert isinstance(whole, IndexedLog)
    whole.select("TopicA#k1", most, 0, LAST_MS, found)
    assert found == places


@pytest.mark.parametrize(
    ("begins", "ends", "places"),
    [(T1, T3, K1[::-1]), (T1 + 1, T3 - 1, [1010]), (T2, T2, [1010]), (T2 + 1, T3 - 1, []), (0, T1 - 1, [])],
)
def test_a_selection_keeps_to_its_times(begins: int, ends: int, places: list[int]) -> None:
    whole = indexed_log(StoreLayout(fivefive("index-only") / "store"), Filesystem())
    found: list[int] = []
    assert isinstance(whole, IndexedLog)
    whole.select("TopicA#k1", 32, begins, ends, found)
    assert found == places


def test_a_database_without_entries_covers_nothing() -> None:
    assert indexed_log(StoreLayout(fivefive("plain") / "store"), Filesystem()) is None


def test_find_asks_the_database_and_names_its_entries() -> None:
    run = rmqctl("-f", "json", "find", "k1", store=fivefive("index-only") / "store")
    places = [(one["place"], one["file"], one["state"]) for one in run.json["places"]]
    entries = [place for place in places if place[0].startswith("index entry")]
    assert (run.code, [one["log_offset"] for one in run.json["messages"]]) == (0, [*K1, 4388])
    assert [(one["start"], one["stop"], one["how"]) for one in run.json["searched"]] == [
        (0, 5073, "index"),
        (5073, 65536, "scan"),
    ]
    assert entries[:2] == [
        ("index entry of 7F0000010012345600000000ABCD0001", "rocksdbstore", "ok"),
        ("index entry of k1", "rocksdbstore", "ok"),
    ]


def test_find_names_an_entry_that_the_database_lacks(tmp_path: Path) -> None:
    root = copy_of("index-only", tmp_path)
    take_entries(root, "k1")
    run = rmqctl("-f", "json", "find", "7F0000010012345600000000ABCD0001", store=root)
    lacking = [one["place"] for one in run.json["places"] if one["state"] != "ok"]
    assert (run.code, lacking) == (1, ["index entry of k1"])


@pytest.mark.parametrize(("first", "last", "is_covered"), [(0, 0, True), (5, 5, True), (5, 6, True), (6, 5, False)])
def test_an_index_covers_the_log_from_its_first_to_its_last_entry(
    first: int, last: int, is_covered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    longs = {LAST_OFFSET: last, LAST_TIME: 99}
    database = SimpleNamespace(oldest_indexed=lambda: first, long=lambda family, name: longs[name])
    monkeypatch.setattr(queries, "may_hold_entries", lambda layout, fs: True)
    monkeypatch.setattr(queries, "open_database", lambda folder, scratch, fs: database)
    fs = Filesystem()
    found = indexed_log(StoreLayout(Path("s")), fs)
    assert found == (IndexedLog(Path("s/rocksdbstore"), fs, first, last, 99) if is_covered else None)
    if found is not None:
        assert [found.matches_time(begin_ms, 0) for begin_ms in (98, 99, 100)] == [True, True, False]
        assert (found.header.begin_log_offset, found.header.end_log_offset) == (first, last)
        assert (found.within(first - 1, last + 1), found.within(last, first).first) == (found, last)
