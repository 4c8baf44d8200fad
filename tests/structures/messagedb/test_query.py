"""The index of the message database, asked as a broker asks it: hours, limits, kinds of keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import open_store
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.messagedb.keys import HOUR_MS, KEY, TAGS, UNIQUE, IndexEntry
from store.structures.messagedb.query import query
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


def test_tags_are_kept_from_keys(root: Path) -> None:
    assert [found(root, text, tags=True) for text in ("k", "u")] == [[70], []]


def test_a_store_without_such_a_database_says_so() -> None:
    with open_store(golden("normal").store) as store, pytest.raises(BadRequest, match="no database"):
        store.query("T", "k", in_database=True)


def test_the_command_asks_the_database() -> None:
    run = rmqctl("-f", "json", "index-query", "TopicA", "k1", "--database", store=fivefive("index-only") / "store")
    assert [message["log_offset"] for message in run.json["messages"]] == [166, 1010, 3538]
    assert run.json["index_files"] == [{"file": "rocksdbstore"}]
