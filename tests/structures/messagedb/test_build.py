"""The message database made anew of the log's records: what the broker had in it, and nothing that is done."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store import check, plan_recovery, staged_store
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.layout import StoreLayout
from store.structures import plan_message_database
from store.structures.messagedb import build
from store.structures.messagedb.database import open_database
from store.structures.messagedb.keys import (
    INDEX,
    KEY,
    LAST_OFFSET,
    LAST_TIME,
    SCAN_OFFSET,
    TIMELINE,
    TIMER,
    TRANS,
    UNIQUE,
    HalfEntry,
    IndexEntry,
    encode_long,
)
from tests.support.five_stores import change_database, fivefive
from tests.support.golden import copy_store
from tests.support.quickly import one_of

pytest.importorskip("rocksdict")
SWITCHES = {"index": {"indexRocksDBEnable": "true"}, "timer": {"timerRocksDBEnable": "true"}, "trans": {}}
FIRED_MS = 1795380329000
"""The timeline of the golden store; four timers were delivered before it, six are due at 5394 s behind it and later."""


def copy_of(name: str, tmp_path: Path) -> Path:
    return copy_store(fivefive(name) / "store", tmp_path / "store")


def content_of(root: Path) -> dict[str, Any]:
    with Scratch() as scratch:
        database = open_database(root / "rocksdbstore", scratch.folder, Filesystem())
        timers = [entry for entry in database.timers() if entry.delivery_ms >= FIRED_MS]
        return {INDEX: list(database.index()), TRANS: list(database.halves()), TIMER: timers, "longs": database.longs}


def rebuild(root: Path, clock_ms: int = FIRED_MS, **settings: str) -> list[str]:
    """Apply the plan; gives its remarks."""
    with staged_store(root, settings=settings, clock=lambda: clock_ms, verb="rebuild") as opened:
        with closing(plan_message_database(opened)) as change:
            change.apply()
        return change.remarks


def lose(root: Path) -> None:
    shutil.rmtree(root / "rocksdbstore")


def break_manifest(root: Path) -> None:
    for path in root.glob("rocksdbstore/MANIFEST-*"):
        path.unlink()


def clear(root: Path) -> None:
    """Take out every entry, and leave the longs."""
    with Scratch() as scratch:
        database = open_database(root / "rocksdbstore", scratch.folder, Filesystem())
        found = [(INDEX, database.index()), (TRANS, database.halves()), (TIMER, database.timers())]
        edits = {family: dict.fromkeys((entry.encode()[0] for entry in entries), None) for family, entries in found}
    change_database(root, edits)


@pytest.mark.parametrize(
    "name", one_of(5, ["plain", "bulk", "index", "index-only", "trans", "timer", "snapshot", "combine"])
)
def test_a_sound_database_gets_the_entries_that_it_has(name: str, tmp_path: Path) -> None:
    root = copy_of(name, tmp_path)
    before = content_of(root)
    assert rebuild(root) == []
    assert (content_of(root), list(check(root))) == (before, [])


@pytest.mark.turns(2)
@pytest.mark.parametrize("damage", [lose, break_manifest], ids=["lost", "broken"])
@pytest.mark.parametrize("name", ["index", "timer"])
def test_settings_tell_what_was_in_a_database_that_can_t_be_read(name: str, damage: Any, tmp_path: Path) -> None:
    root = copy_of(name, tmp_path)
    before = content_of(root)
    damage(root)
    remarks = rebuild(root, **SWITCHES[name])
    assert (content_of(root), list(check(root))) == (before, [])
    assert [remark[:20] for remark in remarks] == {
        (lose, "index"): ["the folder is new: a"], (lose, "timer"): []
    }.get((damage, name), ["the old database can"])  # fmt: skip


@pytest.mark.parametrize("name", ["index", "timer"])
def test_without_settings_a_broken_database_becomes_an_empty_one(name: str, tmp_path: Path) -> None:
    root = copy_of(name, tmp_path)
    break_manifest(root)
    rebuild(root)
    found = content_of(root)
    assert (found[INDEX], found[TIMER], found["longs"]) == ([], [], {INDEX: {}, TIMER: {}, TRANS: {}})


@pytest.mark.parametrize("name", ["index", "timer"])
def test_entries_that_went_come_back(name: str, tmp_path: Path) -> None:
    root = copy_of(name, tmp_path)
    before = content_of(root)
    clear(root)
    rebuild(root)
    assert (content_of(root), list(check(root))) == (before, [])


def test_half_messages_keep_their_checks_and_what_was_given_up_stays_so(tmp_path: Path) -> None:
    root = copy_of("trans", tmp_path)
    first, *others = content_of(root)[TRANS]
    assert isinstance(first, HalfEntry)
    checked = [entry._replace(checks=entry.checks + 3) for entry in others]
    change_database(root, {TRANS: {first.encode()[0]: None} | dict(entry.encode() for entry in checked)})
    rebuild(root)
    assert content_of(root)[TRANS] == checked
    break_manifest(root)
    rebuild(root)
    # The first was given up by the broker too: without the database both are open again.
    opened = content_of(root)[TRANS]
    assert (len(opened), {entry.checks for entry in opened}) == (len(others) + 2, {0})


def test_an_entry_of_no_record_goes(tmp_path: Path) -> None:
    root = copy_of("index", tmp_path)
    entry = content_of(root)[INDEX][0]
    change_database(root, {INDEX: {**dict([entry._replace(unique_key="NOBODY").encode()]), b"torn": bytes(8)}})
    assert [finding.kind for finding in check(root)] == ["message-database", "message-entry-nowhere"]
    rebuild(root)
    assert list(check(root)) == []


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("known_ms", "clock_ms", "begins_ms"),
    [
        pytest.param(FIRED_MS, FIRED_MS + 9, FIRED_MS, id="where it was"),
        pytest.param(None, FIRED_MS, FIRED_MS, id="now, where all are still to come"),
        pytest.param(None, FIRED_MS + 10**9, FIRED_MS + 5_394_000, id="at the first, where it is due"),
    ],
)
def test_the_timeline_begins_before_any_timer_and_never_in_the_future(
    known_ms: int | None, clock_ms: int, begins_ms: int, tmp_path: Path
) -> None:
    root = copy_of("timer", tmp_path)
    change_database(root, {TIMER: {TIMELINE: None if known_ms is None else encode_long(known_ms)}})
    rebuild(root, clock_ms)
    assert content_of(root)["longs"][TIMER] == {SCAN_OFFSET: 20, TIMELINE: begins_ms}


def test_a_recovered_timeline_never_begins_in_the_future(tmp_path: Path) -> None:
    root = copy_of("timer", tmp_path)
    with Scratch() as scratch:
        database = open_database(root / "rocksdbstore", scratch.folder, Filesystem())
        fired = [entry.encode()[0] for entry in database.timers() if entry.delivery_ms < FIRED_MS]
    change_database(root, {TIMER: {TIMELINE: None} | dict.fromkeys(fired)})
    with staged_store(root, clock=lambda: FIRED_MS, verb="recover") as opened, closing(plan_recovery(opened)) as change:
        change.apply()
    assert content_of(root)["longs"][TIMER][TIMELINE] == FIRED_MS


def test_a_store_without_any_of_it_gets_no_database(tmp_path: Path) -> None:
    root = copy_of("plain", tmp_path)
    lose(root)
    assert rebuild(root) == []
    assert not (root / "rocksdbstore").exists()


@pytest.mark.parametrize(
    ("kinds", "newest"),
    [([], (0, 0)), ([KEY], (0, 0)), ([UNIQUE], (10, 1000)), ([UNIQUE, KEY], (10, 1000)), ([KEY, UNIQUE], (20, 2000))],
)
@pytest.mark.parametrize("is_indexed", [True, False])
def test_the_index_ends_at_the_newest_record_with_a_unique_key(
    kinds: list[str], newest: tuple[int, int], is_indexed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [IndexEntry(0, "T", kind, "k", "u", 10 * n, 1000 * n) for n, kind in enumerate(kinds, 1)]
    records = [
        SimpleNamespace(log_offset=one.log_offset, half=lambda: None, index_entries=lambda one=one: [one])
        for one in entries
    ]
    monkeypatch.setattr(build, "walk_records", lambda files: records)
    monkeypatch.setattr(build, "OpenHalves", lambda: SimpleNamespace(halves={}, newest=-1, take=lambda record: None))
    opened = cast(Any, SimpleNamespace(layout=StoreLayout(Path("/store")), fs=Filesystem()))
    index, halves = build._of_records(opened, build._Old(is_indexed, False, 0))
    ends = {LAST_OFFSET: encode_long(newest[0]), LAST_TIME: encode_long(newest[1])}
    assert (index, halves) == (dict(one.encode() for one in entries) | ends if is_indexed else {}, {})
