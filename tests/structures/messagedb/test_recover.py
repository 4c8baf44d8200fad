"""The message database after a recovery or a cut: nothing past the log's end, nothing missing before it."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from store import Change, check, plan_rebuild, plan_recovery, plan_truncation, staged_store
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.structures import plan_message_database
from store.structures.messagedb.database import open_database
from store.structures.messagedb.keys import (
    INDEX,
    LAST_OFFSET,
    SCAN_OFFSET,
    TIMELINE,
    TIMER,
    TRANS,
    HalfEntry,
    encode_long,
)
from tests.runs.starts_of_5_5 import start
from tests.support.five_stores import change_database, fivefive, lose_database
from tests.support.golden import copy_store
from tests.support.quickly import one_of
from tests.support.refstore import COMMAND_55, needs_refstore55

pytest.importorskip("rocksdict")
HOUR_MS = 1795380323000
"""The timers of the golden store are due at 4, 5 s, and 3600, 5400, 10800 and 18000 s behind it."""


def copy_of(name: str, tmp_path: Path) -> Path:
    return copy_store(fivefive(name) / "store", tmp_path / "store")


def content_of(root: Path) -> dict[str, Any]:
    """Log offsets in the three families, with checks or seconds, and the longs."""
    with Scratch() as scratch:
        database = open_database(root / "rocksdbstore", scratch.folder, Filesystem())
        longs = {f"{family} {name.decode()}": long for family in (INDEX, TRANS, TIMER)
                 for name, long in database.longs[family].items()}  # fmt: skip
        return {
            INDEX: sorted({entry.log_offset for entry in database.index()}),
            TRANS: [(entry.log_offset, entry.checks) for entry in database.halves()],
            TIMER: [((entry.delivery_ms - HOUR_MS) // 1000, entry.log_offset) for entry in database.timers()],
            **longs,
        }


def zero_from(root: Path, position: int) -> None:
    """Lose the log's records from a log offset on, as a crash does."""
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(position)
        file.write(bytes(65536 - position))


def test_beside_rebuilt_queues_in_a_database_its_own_files_alone_take_its_place(tmp_path: Path) -> None:
    root = copy_of("index", tmp_path)
    with plan_rebuild(root, settings={"storeType": "defaultRocksDB"}) as rebuilding:
        rebuilding.apply()
    before = content_of(root)
    change_database(root, {INDEX: {LAST_OFFSET: encode_long(166)}})
    (root / "abort").touch()
    apply(plan_recovery(root))
    assert (content_of(root), list(check(root))) == (before, [])
    assert [path.name for path in (root / "rocksdbstore").iterdir() if path.is_symlink()] == []
    assert len(list((root / "rocksdbstore").glob("MANIFEST-*"))) == 1


HALVES = [302 * n for n in range(10)]
"""The log's half messages before 3020; there the ends of the first five begin. The one at 1812 was given up."""
IN_DOUBT = [1510, 2114, 2416, 2718]


def mend(way: str, root: Path) -> None:
    """Mend a store in one of the ways that bring the database to the log's end."""
    if way == "rebuild":
        with staged_store(root) as opened, plan_message_database(opened) as change:
            change.apply()
    else:
        apply(plan_truncation(root) if way == "truncate" else plan_recovery(root))


def halves_of(root: Path) -> list[int]:
    return [place for place, _ in content_of(root)[TRANS]]


@pytest.mark.parametrize("way", ["recover", "truncate", "rebuild"])
def test_half_messages_whose_end_the_log_may_have_lost_are_in_doubt_again(way: str, tmp_path: Path) -> None:
    root = copy_of("trans", tmp_path)
    zero_from(root, 3020)
    mend(way, root)
    assert (halves_of(root), content_of(root)["trans lastOffsetPy"]) == (HALVES, 2718)


@pytest.mark.parametrize("way", ["recover", "truncate", "rebuild"])
def test_lost_records_without_an_end_bring_back_no_half_message(way: str, tmp_path: Path) -> None:
    root = copy_of("trans", tmp_path)
    # The half message at 5020 is the newest record.
    zero_from(root, 5020)
    mend(way, root)
    assert halves_of(root) == IN_DOUBT


@pytest.mark.parametrize(("lost_from", "places"), [(65536, [*IN_DOUBT, 5020]), (3020, HALVES)])
def test_without_their_queue_a_lost_half_message_tells_of_lost_ends(
    lost_from: int, places: list[int], tmp_path: Path
) -> None:
    root = copy_of("trans", tmp_path)
    shutil.rmtree(root / "consumequeue")
    zero_from(root, lost_from)
    mend("recover", root)
    assert halves_of(root) == places


# The record at 3192 ends the half message at 0; if it is broken itself, it may have ended the given-up one too.
@pytest.mark.parametrize(("position", "given_up"), [(3024, []), (3196, [1812])])
def test_of_readable_ends_only_their_half_messages_are_open_again(
    position: int, given_up: list[int], tmp_path: Path
) -> None:
    root = copy_of("trans", tmp_path)
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(position)
        file.write(bytes(4))
    mend("recover", root)
    assert halves_of(root) == sorted([*HALVES[:5], *given_up, *IN_DOUBT])


@needs_refstore55
def test_the_real_broker_keeps_them_in_doubt(tmp_path: Path) -> None:
    root = copy_of("trans", tmp_path)
    zero_from(root, 3020)
    mend("recover", root)
    start(COMMAND_55, root, tmp_path / "answers", ["transRocksDBEnable=true", "transWriteOriginTransHalfEnable=false"])
    assert halves_of(root) == HALVES


def apply(change: Change) -> None:
    with closing(change):
        change.apply()


@pytest.mark.parametrize(
    "name", one_of(2, ["plain", "bulk", "index", "index-only", "trans", "timer", "snapshot", "combine"])
)
def test_a_sound_store_is_left_as_it_is(name: str, tmp_path: Path) -> None:
    with plan_recovery(copy_of(name, tmp_path)) as change:
        assert change.is_empty


@pytest.mark.turns(3)
def test_a_killed_store_gets_the_keys_that_were_in_memory(tmp_path: Path) -> None:
    root = copy_of("index-killed-wal", tmp_path)
    assert (len(content_of(root)[INDEX]), content_of(root)["default lastOffsetPy"]) == (3000, 627824)
    with plan_recovery(root) as change:
        assert "message-database" in [row.difference for row in change.report.differs_from_broker]
        change.apply()
    found = content_of(root)
    assert (len(found[INDEX]), found["default lastOffsetPy"]) == (6000, 1257994)
    assert found["default lastStoreTimeStamp"] == 1795381621549
    assert list(check(root)) == []


@pytest.mark.turns(3)
def test_as_a_broker_keys_are_entered_from_where_its_start_begins(tmp_path: Path) -> None:
    """That is ten segments behind the end; the keys between there and the database's end never come."""
    root = copy_of("index-killed-wal", tmp_path)
    apply(plan_recovery(root, as_broker=True))
    found = content_of(root)
    never = [offset for offset in found[INDEX] if 627825 <= offset < 720641]
    assert (len(found[INDEX]), found["default lastOffsetPy"], never) == (5558, 1257994, [])


def test_as_a_broker_nothing_of_cut_records_goes(tmp_path: Path) -> None:
    root = copy_of("trans", tmp_path)
    before = content_of(root)
    zero_from(root, 2718)
    with plan_recovery(root, as_broker=True) as change:
        assert [row.difference for row in change.report.differs_from_broker] == []
        change.apply()
    assert content_of(root) == before


def test_a_half_message_that_the_log_ends_is_not_open(tmp_path: Path) -> None:
    root = copy_of("trans", tmp_path)
    ended = HalfEntry(906, "TopicB", "7F0000010012345600000000ABCD0003", 0, 302)
    before = content_of(root)
    change_database(root, {TRANS: dict([ended.encode()])})
    assert (906, 0) in content_of(root)[TRANS]
    apply(plan_recovery(root))
    assert content_of(root) == before


def test_a_lost_index_that_a_setting_switches_on_gets_all_keys(tmp_path: Path) -> None:
    root = copy_of("index", tmp_path)
    wanted = content_of(root)
    lose_database(root)
    with staged_store(root, settings={"indexRocksDBEnable": True}) as opened, plan_recovery(opened) as change:
        change.apply()
    assert content_of(root) == wanted


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("cut", "last", "time_ms", "count"),
    [
        (5257, 5073, 1795380329600, 29),
        (5073, 4908, 1795380329600, 28),
        (4741, 4570, 1795380329599, 26),
        (166, 0, 1795380329522, 1),
        (0, 0, 0, 0),
    ],
)
def test_keys_of_cut_records_go(cut: int, last: int, time_ms: int, count: int, tmp_path: Path) -> None:
    root = copy_of("index", tmp_path)
    apply(plan_truncation(root, cut))
    found = content_of(root)
    assert [offset for offset in found[INDEX] if offset >= cut] == []
    assert (found["default lastOffsetPy"], found["default lastStoreTimeStamp"]) == (last, time_ms)
    assert len(found[INDEX]) == count
    assert list(check(root)) == []


OPEN = [(1510, 0), (2114, 1), (2416, 1), (2718, 1)]


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("cut", "last", "halves"),
    [
        pytest.param(5325, 5020, [*OPEN, (5020, 0)], id="nothing"),
        pytest.param(5020, 2718, OPEN, id="the newest half message"),
        pytest.param(4722, 2718, [(1208, 0), *OPEN], id="the end of one, and what was given up stays so"),
        pytest.param(3192, 2718, [(0, 0), (302, 0), (604, 0), (906, 0), (1208, 0), *OPEN], id="every end"),
        pytest.param(604, 302, [(0, 0), (302, 0)], id="all but two half messages"),
        pytest.param(0, 0, [], id="everything"),
    ],
)
def test_a_half_message_without_its_end_is_open_again(
    cut: int, last: int, halves: list[tuple[int, int]], tmp_path: Path
) -> None:
    root = copy_of("trans", tmp_path)
    apply(plan_truncation(root, cut))
    found = content_of(root)
    assert (found[TRANS], found["trans lastOffsetPy"]) == (halves, last)
    assert list(check(root)) == []


@pytest.mark.turns(2)
@pytest.mark.parametrize(("last", "is_back"), [(2114, True), (2415, True), (2416, False), (2417, False)])
def test_a_given_up_half_message_up_to_the_last_one_entered_stays_so(last: int, is_back: bool, tmp_path: Path) -> None:
    root = copy_of("trans", tmp_path)
    given_up = HalfEntry(2416, "TopicA", "7F0000010012345600000000ABCD0008", 0, 302).encode()[0]
    change_database(root, {TRANS: {LAST_OFFSET: encode_long(last), given_up: None}})
    apply(plan_recovery(root))
    found = content_of(root)
    assert found[TRANS] == [(1510, 0), (2114, 1), *([(2416, 0)] if is_back else []), (2718, 1), (5020, 0)]
    assert found["trans lastOffsetPy"] == 5020


@pytest.mark.parametrize("last", [None, 604])
def test_half_messages_that_no_start_enters_are_entered(last: int | None, tmp_path: Path) -> None:
    root = copy_of("trans", tmp_path)
    if last is None:
        shutil.rmtree(root / "rocksdbstore")
    else:
        gone = [HalfEntry(2718, "TopicB", "7F0000010012345600000000ABCD0009", 0, 302)]
        change_database(root, {TRANS: {LAST_OFFSET: encode_long(last), **{one.encode()[0]: None for one in gone}}})
    apply(plan_recovery(root))
    found = content_of(root)
    checks = 0 if last is None else 1
    # The one that was given up is open again, as after a broker's own start from a crash.
    assert found[TRANS] == [(1510, 0), (1812, 0), (2114, checks), (2416, checks), (2718, 0), (5020, 0)]
    assert found["trans lastOffsetPy"] == 5020
    assert list(check(root)) == []


FIRED = [(4, 0), (4, 232), (5, 464), (5, 696)]


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("cut", "scan", "waiting"),
    [
        pytest.param(
            5809,
            20,
            [(5400, 5343), (5400, 5576), (10800, 4339), (10800, 4841), (18000, 5092), (18000, 4590)],
            id="nothing",
        ),
        pytest.param(
            5576,
            19,
            [(5400, 5343), (10800, 4339), (10800, 4841), (18000, 5092), (18000, 4590)],
            id="the newest timer",
        ),
        pytest.param(
            4841, 16, [(10800, 4339), (10800, 1624), (18000, 1856), (18000, 4590)], id="the copies of two that rolled"
        ),
        pytest.param(
            2598,
            11,
            [(3600, 1160), (10800, 1392), (10800, 1624), (18000, 1856), (18000, 2088)],
            id="a delete, so that its timer comes back",
            marks=pytest.mark.leaves_damage,
        ),
        pytest.param(928, 4, [], id="all that wait", marks=pytest.mark.leaves_damage),
    ],
)
def test_a_timer_points_to_its_newest_record_that_is_left(
    cut: int, scan: int, waiting: list[tuple[int, int]], tmp_path: Path
) -> None:
    root = copy_of("timer", tmp_path)
    apply(plan_truncation(root, cut))
    found = content_of(root)
    assert (found[TIMER], found[f"timer {SCAN_OFFSET.decode()}"]) == ([*FIRED, *waiting], scan)
    assert found[f"timer {TIMELINE.decode()}"] == HOUR_MS + 6000


@pytest.mark.parametrize(
    ("cut", "scan"),
    [
        pytest.param(4000, 14, id="the records are lost"),
        pytest.param(5576, 19, id="the last record is lost"),
        pytest.param(0, 0, id="all records are lost", marks=pytest.mark.leaves_damage),
    ],
)
def test_the_scan_of_timers_ends_with_their_queue_if_no_cut_record_can_be_read(
    cut: int, scan: int, tmp_path: Path
) -> None:
    root = copy_of("timer", tmp_path)
    zero_from(root, cut)
    apply(plan_recovery(root))
    assert content_of(root)[f"timer {SCAN_OFFSET.decode()}"] == scan
    assert [finding.kind for finding in check(root) if finding.kind == "message-database"] == []


def test_a_timeline_that_never_fired_begins_at_its_first_timer(tmp_path: Path) -> None:
    root = copy_of("timer", tmp_path)
    change_database(root, {TIMER: {TIMELINE: None}})
    apply(plan_recovery(root))
    assert content_of(root)[f"timer {TIMELINE.decode()}"] == HOUR_MS + 4000
