"""Findings on the message database: each entry that no record explains, each key that is missing, each long ahead."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store import check
from store.config import StoreConfig
from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.files.store_reader import StoreReader
from store.formats.index_page import HEADER_SIZE, IndexHeader
from store.opened.detect import make_layout
from store.structures.findings import LOST_INDEX, MISSING_INDEX_ENTRY, Finding
from store.structures.messagedb import check as messagedb_check
from store.structures.messagedb.database import open_database
from store.structures.messagedb.expect import OpenHalves
from store.structures.messagedb.keys import (
    HOUR_MS,
    INDEX,
    LAST_OFFSET,
    SCAN_OFFSET,
    TAGS,
    TIMELINE,
    TIMER,
    TRANS,
    UNIQUE,
    HalfEntry,
    IndexEntry,
    TimerEntry,
    encode_long,
)
from tests.cli.running import rmqctl
from tests.support.five_stores import change_database, fivefive
from tests.support.golden import copy_store

pytest.importorskip("rocksdict")
Edits = dict[str, dict[bytes, bytes | None]]
FIRED_MS, STORED_MS = 1795380329000, 1795380329600
UNIQUE_KEY = "7F0000010012345600000000ABCD"


def put(family: str, *entries: IndexEntry | TimerEntry | HalfEntry) -> Edits:
    return {family: dict(one.encode() for one in entries)}


def long(family: str, name: bytes, value: int) -> Edits:
    return {family: {name: encode_long(value)}}


def unique(log_offset: int, unique_key: str) -> IndexEntry:
    return IndexEntry(STORED_MS - STORED_MS % HOUR_MS, "T", UNIQUE, "", unique_key, log_offset, STORED_MS)


def timer(delivery_ms: int, log_offset: int = 232) -> TimerEntry:
    return TimerEntry(delivery_ms, "X", 232, log_offset)


def half(log_offset: int = 1510, checks: int = 0, size: int = 302) -> HalfEntry:
    return HalfEntry(log_offset, "TopicB", f"{UNIQUE_KEY}0005", checks, size)


def nowhere(offset: int, topic: str, unique_key: str, count: int = 1) -> str:
    detail = f"{unique_key} is not the record at log offset {offset}"
    return f"message-entry-nowhere {offset} {topic} {count} {detail}"


def state(offset: int, detail: str, count: int = 1) -> str:
    return f"message-database {offset} - {count} {detail}"


TIMERS = "rmq_sys_wheel_timer"
MALFORMED = "a key or a value is malformed"
GONE = FIRED_MS - HOUR_MS // 2
"""What was delivered before is to be deleted, and not looked at."""


def found(root: Path) -> list[str]:
    return [f"{one.kind} {one.offset} {one.topic or '-'} {one.count} {one.detail}" for one in check(root)]


@pytest.mark.parametrize(
    ("name", "edits", "findings"),
    [
        pytest.param("index", put(INDEX, unique(0, "X")), [nowhere(0, "T", "X")], id="of another message"),
        pytest.param("index", put(INDEX, unique(1, "X")), [nowhere(1, "T", "X")], id="inside a record"),
        pytest.param(
            "index", put(INDEX, unique(1, "Y"), unique(1, "X")), [nowhere(1, "T", "X", 2)], id="two inside a record"
        ),
        pytest.param(
            "index",
            put(INDEX, unique(5257, "X")),
            [state(5257, "an entry points to 5257, the log ends at 5257")],
            id="at the log's end",
        ),
        pytest.param("index", long(INDEX, LAST_OFFSET, 5256), [], id="the index reaches the last byte"),
        pytest.param(
            "index",
            long(INDEX, LAST_OFFSET, 5257),
            [state(5257, "lastOffsetPy of default is 5257, the log ends at 5257")],
            id="the index reaches the log's end",
        ),
        pytest.param(
            "index", {INDEX: dict.fromkeys((b"torn", b"worn"), bytes(8))}, [state(0, MALFORMED, 2)], id="malformed keys"
        ),
        pytest.param("trans", put(TRANS, half(checks=9)), [], id="a half message that was asked more often"),
        pytest.param(
            "trans", put(TRANS, half(size=303)), [nowhere(1510, "TopicB", f"{UNIQUE_KEY}0005")], id="another size"
        ),
        pytest.param("trans", {TRANS: {b"torn": bytes(8)}}, [state(0, MALFORMED)], id="a malformed half message"),
        pytest.param(
            "trans",
            long(TRANS, LAST_OFFSET, 5325),
            [state(5325, "lastOffsetPy of trans is 5325, the log ends at 5325")],
            id="half messages reach the log's end",
        ),
        pytest.param("timer", put(TIMER, timer(GONE - 1)), [], id="a timer that is to be deleted"),
        pytest.param("timer", put(TIMER, timer(GONE)), [nowhere(232, TIMERS, "X")], id="a timer of another message"),
        pytest.param(
            "timer",
            put(TIMER, timer(FIRED_MS), timer(FIRED_MS + 1), timer(FIRED_MS + 2, 5809)),
            [nowhere(232, TIMERS, "X", 2), state(5809, "an entry points to 5809, the log ends at 5809")],
            id="two of a record and one past the log",
        ),
        pytest.param("timer", put(TIMER, timer(GONE - 1, 9999)), [], id="a delivered one past the log"),
        pytest.param("timer", {TIMER: {b"torn": bytes(12)}}, [state(0, MALFORMED)], id="a malformed timer"),
        pytest.param("timer", long(TIMER, SCAN_OFFSET, 21), [
            state(21, "sys_topic_scan_offset_checkpoint is 21, the queue of timers ends at 20")
        ], id="timers ahead of their queue"),
        pytest.param("trans", long(TIMER, SCAN_OFFSET, 2), [], id="timers without a queue of timers"),
        pytest.param("timer", long(TIMER, TIMELINE, FIRED_MS + 1), [], id="a later timeline"),
        pytest.param("timer", long(TIMER, SCAN_OFFSET, 20), [], id="timers up to their queue's end"),
        pytest.param("trans", long(TRANS, LAST_OFFSET, 5324), [], id="half messages reach the last byte"),
    ],
)  # fmt: skip
def test_what_no_record_explains_is_found(name: str, edits: Edits, findings: list[str], tmp_path: Path) -> None:
    root = copy_store(fivefive(name) / "store", tmp_path / "store")
    change_database(root, edits)
    assert found(root) == findings


def entries_at(root: Path, places: Iterable[int]) -> list[IndexEntry]:
    with Scratch() as scratch:
        found = [*open_database(root / "rocksdbstore", scratch.folder, Filesystem()).index()]
    return [one for one in found if isinstance(one, IndexEntry) and one.log_offset in places]


# Those before the first entry and behind the last offset are a start's to enter.
@pytest.mark.parametrize(
    ("places", "reaches", "missing"),
    [
        pytest.param({166}, 5073, [(166, "TopicA", 2)], id="of the second record"),
        pytest.param({0}, 5073, [], id="of the first record"),
        pytest.param({0, 166, 330}, 5073, [], id="of the first three"),
        pytest.param({166, 330}, 5073, [(166, "TopicA", 2), (330, "TopicB", 4)], id="of two"),
        pytest.param({5073}, 5073, [(5073, "T@", 3)], id="of the last that the index reaches"),
        pytest.param({5073}, 5072, [], id="of the next"),
    ],
)
def test_a_key_is_missing_where_the_index_has_earlier_ones_and_reaches_it(
    places: set[int], reaches: int, missing: list[tuple[int, str, int]], tmp_path: Path
) -> None:
    root = copy_store(fivefive("index") / "store", tmp_path / "store")
    gone = dict.fromkeys(one.encode()[0] for one in entries_at(root, places))
    change_database(root, {INDEX: {**gone, LAST_OFFSET: encode_long(reaches)}})
    assert [(one.kind, one.offset, one.topic, one.detail) for one in check(root)] == [
        ("missing-message-entry", offset, topic, f"{count} of the record at log offset {offset}")
        for offset, topic, count in missing
    ]


@pytest.mark.parametrize(("horizon", "offsets"), [(0, []), (1, [166]), (None, [166])])
def test_records_from_a_writers_place_on_are_not_looked_for(
    horizon: int | None, offsets: list[int], tmp_path: Path
) -> None:
    root = copy_store(fivefive("index") / "store", tmp_path / "store")
    change_database(root, {INDEX: dict.fromkeys(one.encode()[0] for one in entries_at(root, {166}))})
    store = SimpleNamespace(
        layout=make_layout(root, {}),
        fs=Filesystem(),
        files=StoreReader(str(root)),
        config=StoreConfig(),
        horizon=horizon,
    )
    assert [one.offset for one in messagedb_check.check(cast(Any, store))] == offsets


# The last log offset of the index and of half messages, that of the op record of the half message at 10, and whether
# the entry at 10 is left.
@pytest.mark.parametrize(
    ("index", "trans", "ended", "is_left"),
    [
        (0, 0, 50, True),
        (0, 0, None, True),
        (40, 0, 50, False),
        (0, 40, 50, False),
        (50, 0, 50, True),
        (49, 60, 50, False),
        (60, 49, 50, False),
        (51, 60, 50, True),
        (40, 40, None, True),
    ],
)
def test_the_entry_of_an_ended_half_message_is_left_up_to_the_least_offset(
    index: int, trans: int, ended: int | None, is_left: bool
) -> None:
    longs = {INDEX: index, TRANS: trans}
    database = SimpleNamespace(long=lambda family, name: longs[family])
    looked = messagedb_check._Check("db", cast(Any, database), halves={10: half(10)})
    opened = OpenHalves({}, {} if ended is None else {10: ended})
    assert list(looked._left(opened)) == ([half(10)] if is_left else [])


def test_an_open_half_message_is_not_left_unless_its_entry_is_another() -> None:
    looked = messagedb_check._Check("db", cast(Any, SimpleNamespace(long=lambda family, name: 0)))
    looked.halves = {10: half(10, checks=3), 20: half(20)}
    assert list(looked._left(OpenHalves({10: half(10), 20: half(20, size=1)}))) == [half(20)]


def test_a_database_that_cannot_be_read_is_one_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy_store(fivefive("index") / "store", tmp_path / "store")
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    reason = "the index, timers and half messages are in a RocksDB, and the package rocksdict is not installed"
    assert found(root) == [state(0, f"{reason}; install it: pip install 'rmqctl[rocksdb]'")]


FIRST, BEFORE, AT, AFTER = 0, 2, 3, 4
"""Numbers of records with a key: the index files end before AT."""


@pytest.mark.parametrize(
    ("first", "missing_at"),
    [
        pytest.param(AT, None, id="the database begins with the first key that the files lack"),
        pytest.param(AFTER, AT, id="a key is in neither"),
        pytest.param(BEFORE, AT, id="the files end in the middle of the database"),
        pytest.param(FIRST, AT, id="the database has all keys"),
        pytest.param(None, AT, id="the database is empty"),
    ],
)
def test_keys_that_only_the_database_got_after_the_last_index_file_are_not_missing(
    first: int | None, missing_at: int | None, tmp_path: Path
) -> None:
    root, cut = copy_store(fivefive("index") / "store", tmp_path / "store"), tmp_path / "cut"
    with Scratch() as scratch:
        entries = [*open_database(root / "rocksdbstore", scratch.folder, Filesystem()).index()]
    assert all(isinstance(one, IndexEntry) for one in entries)
    keyed = sorted({one.log_offset for one in cast(list[IndexEntry], entries) if one.kind != TAGS})
    kept_from = keyed[first] if first is not None else sys.maxsize
    gone = {one.encode()[0]: None for one in cast(list[IndexEntry], entries) if one.log_offset < kept_from}
    change_database(root, {INDEX: {**gone, **({LAST_OFFSET: None} if first is None else {})}})
    # The index of the log as it was when the broker got other settings.
    shutil.copytree(root / "commitlog", cut / "commitlog")
    segment = cut / "commitlog" / f"{0:020d}"
    segment.write_bytes(segment.read_bytes()[: keyed[AT]].ljust(segment.stat().st_size, b"\0"))
    assert rmqctl("rebuild", "--index", "--set", "maxIndexNum=1000", "--yes", store=cut).code == 0
    shutil.rmtree(root / "index")
    shutil.copytree(cut / "index", root / "index")
    missing = [one.offset for one in check(root) if one.kind == "missing-index-entry"]
    assert missing == ([] if missing_at is None else [keyed[missing_at]])
    assert {one.kind for one in check(root)} <= {"missing-index-entry"}


def test_an_unreadable_index_file_hides_no_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(head: bytes) -> object:
        raise StoreIOError("bad sector", file="index/1")

    monkeypatch.setattr(messagedb_check, "decode_header", fail)
    root = fivefive("index") / "store"
    fs = Filesystem()
    names = SimpleNamespace(files=StoreReader(str(root)), layout=make_layout(root, {}, fs), fs=fs)
    owns = messagedb_check.owned_by(cast(Any, names))
    assert not owns(Finding(MISSING_INDEX_ENTRY, "commitlog/0", sys.maxsize - 1))
    assert owns(Finding(LOST_INDEX, "index", 0))


@pytest.mark.parametrize(
    ("ends", "last", "oldest", "alone_from"),
    [
        ([], 500, 400, sys.maxsize),
        ([300, 200], 500, 400, 400),
        ([200, 300], 500, 250, sys.maxsize),
        ([300], 500, 300, sys.maxsize),
        ([300], 500, 301, 301),
        ([300], 300, 400, sys.maxsize),
        ([300], 301, 400, 400),
    ],
)
def test_keys_are_in_the_database_alone_past_the_end_of_all_index_files(
    ends: list[int], last: int, oldest: int, alone_from: int
) -> None:
    headers = {str(number): IndexHeader(end_log_offset=end).encode() for number, end in enumerate(ends)}
    files = SimpleNamespace(
        index_files=lambda: [SimpleNamespace(path=path, size=HEADER_SIZE) for path in headers],
        read=lambda path, start, size: headers[path],
    )
    database = SimpleNamespace(long=lambda family, name: last, oldest_indexed=lambda: oldest)
    found = messagedb_check._indexed_alone_from(cast(Any, SimpleNamespace(files=files)), cast(Any, database))
    assert found == alone_from
